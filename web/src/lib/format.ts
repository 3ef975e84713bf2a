// Numbers as people read them: binary bytes, times with three digits, counts with separators.

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function threeDigits(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

export function bytes(value: number | null): string {
  if (value === null) return '–';
  let unit = 0;
  let size = value;
  while (Math.abs(size) >= 1023.5 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 ? String(size) : threeDigits(size)} ${BYTE_UNITS[unit]}`;
}

const TIME_UNITS: [number, string][] = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
];

export function time(ns: number | null): string {
  if (ns === null) return '–';
  for (const [size, name] of TIME_UNITS)
    if (Math.abs(ns) >= size * 0.9995) return `${threeDigits(ns / size)} ${name}`;
  return `${Math.round(ns)} ns`;
}

/** A point in time: three decimals of its unit, to tell events close together apart. */
export function instant(ns: number): string {
  const [size, name] = TIME_UNITS.find(([unit]) => Math.abs(ns) >= unit) ?? [1, 'ns'];
  return size === 1 ? `${Math.round(ns)} ns` : `${(ns / size).toFixed(3)} ${name}`;
}

/** A time on an axis whose steps are `step` apart: enough digits to tell neighbours apart. */
export function axisTime(ns: number, step: number): string {
  const [size, name] = TIME_UNITS.find(([unit]) => Math.max(Math.abs(ns), step) >= unit) ?? [1, 'ns'];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return ns === 0 ? '0' : `${(ns / size).toFixed(digits)} ${name}`;
}

export function count(value: number | null): string {
  return value === null ? '–' : value.toLocaleString('en-US');
}

export function percent(share: number | null): string {
  return share === null || !Number.isFinite(share) ? '–' : `${threeDigits(share * 100)} %`;
}

export function factor(value: number | null): string {
  return value === null ? '–' : `${value.toFixed(value < 10 ? 3 : 1)}×`;
}

/** Scores span many orders of magnitude: four significant digits, exponents where they help. */
export function score(value: number | null): string {
  if (value === null) return '∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(3) : value.toPrecision(4);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
