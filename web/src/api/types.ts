// Answers of the server, as schema/openapi.yaml describes them.  Times are ns from the run's start.

export interface Run {
  id: number;
  kind: 'live' | 'sim';
  program: string | null;
  trace: string | null;
  heuristic: string | null;
  search: string | null;
  deallocation: string;
  budget_bytes: number | null;
  result: string;
  why: string | null;
  clock: 'monotonic' | 'logical';
  peak_bytes: number | null;
  unlimited_peak_bytes: number | null;
  constant_bytes: number | null;
  evictions: number | null;
  eager_evictions: number | null;
  rematerializations: number | null;
  operator_runs: number | null;
  overshoots: number | null;
  slowdown: number | null;
  wall_ns: number | null;
  search_ns: number | null;
  record_ns: number | null;
  started_at_unix_ns: string;
}

export interface FileInfo {
  file: number;
  name: string;
  runs: Run[];
  sweep_runs: number;
  not_shown: number;
}

export interface Files {
  version: string;
  files: FileInfo[];
}

export interface Remade {
  op: number;
  tensor: number;
  replays: number;
  cost_ns: number;
  name: string;
}

export interface Mark {
  t: number;
  mark: number;
  name: string;
  value: number | null;
}

/** Why histories were cut, or (a hazard) why something is kept. */
export interface Note {
  cause: string;
  hazard: boolean;
  count: number;
  tensors: number;
  replays: number;
  dur_ns: number;
}

export interface RunInfo {
  run: Run;
  begin: number;
  end: number;
  stats: {
    first_ns: number;
    replay_ns: number;
    search_ns: number;
    record_ns: number;
    other_ns: number;
    total_ns: number;
    first_runs: number;
    replays: number;
    evictions: number;
    eager_evictions: number;
    chains: number;
    deepest_chain: number;
    decisions: number;
    candidates: number;
    top: Remade[];
    notes: Note[];
  };
  settings: { name: string; value: string | null; origin: string }[];
  losses: { reason: string; count: number | null }[];
  windows: {
    id: number; begin: number; end: number | null;
    opened_by: string; closed_by: string | null; skipped: number;
  }[];
  marks: Mark[];
  marks_not_shown: number;
  storages: number;
}

export interface Memory {
  t0: number;
  t1: number;
  min: number[];
  max: number[];
  avg: number[];
  evicted_bytes: number[];
  eager_bytes: number[];
  budget: [number, number | null][];
}

/** begin, duration, runs joined, execution of the longest, its name id */
export type Slice = [number, number, number, number, number];

export interface Lane {
  replay: boolean;
  depth: number | null;
  and_deeper: boolean;
  runs: number;
  not_shown: number;
  slices: Slice[];
}

export interface Lanes {
  t0: number;
  t1: number;
  lanes: Lane[];
  names: Record<string, string>;
}

/** time, evictions joined, bytes, decision of the largest, its storage */
export type Tick = [number, number, number, number | null, number];

export interface Op {
  op: number;
  name: string;
  signature: string | null;
}

export interface Evictions {
  t0: number;
  t1: number;
  evictions: number;
  ticks: Tick[];
  out_of_memory: { t: number; op: Op | null; needed: number; in_use: number; overshoot: boolean }[];
}

export interface StorageRow {
  storage: number;
  bytes: number;
  remakes: number;
  remake_ns: number;
  op: Op | null;
  /** begin, end, stays joined, how many stays came before */
  before: boolean;
  bars: [number, number, number, number][];
}

export interface Residency {
  t0: number;
  t1: number;
  total: number;
  offset: number;
  not_shown: number;
  rows: StorageRow[];
}

export interface StorageRef {
  storage: number;
  op: Op | null;
  bytes: number;
}

export interface Candidate {
  rank: number;
  storage: StorageRef;
  score: number | null;
  cost_ns: number;
  local_cost_ns: number;
  bytes: number;
  staleness_ns: number | null;
  neighbours: number | null;
}

export type Fate =
  | { what: 'never' }
  | { what: 'freed'; t: number; after_ns: number }
  | {
      what: 'remade';
      t: number;
      after_ns: number;
      execution: number;
      cost_ns: number;
      chain: number | null;
      chain_runs: number | null;
      chain_cost_ns: number | null;
      cause: Op | null;
    };

export interface Decision {
  decision: number;
  t: number;
  victim: StorageRef;
  op: Op | null;
  needed: number;
  in_use: number;
  budget: number;
  n_candidates: number;
  evaluations: number;
  tied: boolean;
  search_ns: number | null;
  candidates: Candidate[];
  fate: Fate | null;
  previous: number | null;
  next: number | null;
}

export interface Execution {
  execution: number;
  op: number;
  t: number;
  dur_ns: number;
  cost_ns: number;
  replay: boolean;
  depth: number;
  name: string;
  target: number;
}

export interface TensorRef {
  tensor: number;
  storage: number | null;
  bytes: number | null;
  op: Op | null;
  view_of: number | null;
  constant: boolean;
}

export interface ExecutionInfo {
  execution: Execution;
  in_use: number;
  cause: Op | null;
  inputs: TensorRef[];
  outputs: TensorRef[];
  chain: null | {
    chain: number;
    t: number;
    dur_ns: number;
    runs: number;
    cost_ns: number;
    max_depth: number;
    tensor: TensorRef;
    cause: Op | null;
    executions: Execution[];
    not_shown: number;
  };
  all_executions: Execution[];
  all_executions_not_shown: number;
}

export interface StorageInfo {
  storage: number;
  bytes: number;
  op: Op | null;
  created: number;
  remakes: number;
  remake_ns: number;
  stays: [number, number][];
  stays_not_shown: number;
  tensors: { tensor: number; op: Op | null; view_of: number | null }[];
  evictions: { t: number; reason: number; decision: number | null }[];
}

export interface Found {
  executions: { execution: number; op: number; name: string; t: number; replay: boolean }[];
  not_shown: number;
  storage: number | null;
}

export interface SweepPoint {
  run: number;
  trace: string | null;
  trace_hash: string;
  heuristic: string;
  deallocation: string;
  result: string;
  budget_bytes: number | null;
  unlimited_peak_bytes: number | null;
  budget_share: number | null;
  peak_bytes: number | null;
  slowdown: number | null;
  evictions: number | null;
  rematerializations: number | null;
  has_events: boolean;
}

export interface Sweep {
  points: SweepPoint[];
  not_shown: number;
}
