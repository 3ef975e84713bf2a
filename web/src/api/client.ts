// Asking the server.  Every failure is an ApiError with a sentence for people.

export class ApiError extends Error {
  constructor(readonly code: number, text: string) {
    super(text);
  }
}

export type Params = Record<string, string | number>;

export async function ask<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) query.set(name, String(value));
  const text = query.toString();
  let response: Response;
  try {
    response = await fetch(`/api/${path}${text ? `?${text}` : ''}`, { signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'The server does not answer. Is `dtrscope serve` still running?');
  }
  const body = (await response.json()) as T & { error?: { text: string } };
  if (!response.ok) throw new ApiError(response.status, body.error?.text ?? response.statusText);
  return body;
}

/** Turns the token of the printed address into a cookie, and takes it out of the address. */
export async function signIn(): Promise<void> {
  const params = new URLSearchParams(location.hash.slice(1));
  const token = params.get('token');
  if (!token) return;
  params.delete('token');
  const rest = params.toString();
  history.replaceState(null, '', rest ? `#${rest}` : location.pathname);
  await fetch('/api/session', { headers: { Authorization: `Bearer ${token}` } });
}

/** Runs one request at a time: a newer one cancels the older, and waits until calls pause. */
export class Latest<T> {
  private controller: AbortController | null = null;
  private timer = 0;

  constructor(
    private readonly path: string,
    private readonly done: (answer: T) => void,
    private readonly failed: (error: Error) => void,
  ) {}

  request(params: Params, delay_ms: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.send(params), delay_ms);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.controller?.abort();
  }

  private async send(params: Params): Promise<void> {
    this.controller?.abort();
    const controller = new AbortController();
    this.controller = controller;
    try {
      const answer = await ask<T>(this.path, params, controller.signal);
      if (!controller.signal.aborted) this.done(answer);
    } catch (error) {
      if (!controller.signal.aborted) this.failed(error as Error);
    }
  }
}
