// Colours for canvases, from the style sheet, so that light and dark are written down once.

export interface Theme {
  ink: string;
  muted: string;
  grid: string;
  surface: string;
  memory: string;
  memoryFill: string;
  budget: string;
  first: string;
  replay: string;
  evicted: string;
  pick: string;
  resident: string;
  onBar: string;
}

const NAMES: Record<keyof Theme, string> = {
  ink: '--ink', muted: '--muted', grid: '--grid', surface: '--surface', memory: '--memory',
  memoryFill: '--memory-fill', budget: '--budget', first: '--first', replay: '--replay',
  evicted: '--evicted', pick: '--pick', resident: '--resident', onBar: '--on-bar',
};

export function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const theme = {} as Theme;
  for (const [key, name] of Object.entries(NAMES))
    theme[key as keyof Theme] = style.getPropertyValue(name).trim();
  return theme;
}

export const FONT = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

/** Sizes the canvas for the display's pixels and returns a cleared context in CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.round(width * ratio);
  const h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext('2d')!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.font = FONT;
  ctx.textBaseline = 'middle';
  return ctx;
}

/** Text that stays readable on whatever is behind it. */
export function label(
  ctx: CanvasRenderingContext2D, theme: Theme, text: string, x: number, y: number, colour: string,
): void {
  ctx.lineWidth = 3;
  ctx.lineJoin = 'round';
  ctx.strokeStyle = theme.surface;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y);
}
