// Draws line plots as one plain SVG, one below the other, with a logarithmic x axis. Its colours are readable
// on a light and on a dark background; it has no style element, which the console's policy forbids.

export interface Panel {
  /** of the y axis, with its unit */
  readonly title: string;
  readonly lines: readonly Line[];
}

export interface Line {
  readonly name: string;
  /** x and y; a point without a number is left out */
  readonly points: readonly (readonly [x: number, y: number])[];
}

const [width, height] = [640, 280];
const margin = { left: 62, right: 14, top: 28, bottom: 44 };
const legendLine = 16;
const grey = '#808080';
/** of Okabe and Ito, as far as they stand out on white and on black */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#b08000', '#8a63d2', '#808080'];
const dashes = ['', '6 3'];

export function plot(panels: readonly Panel[], xTitle: string): string {
  let h = 0;
  const body = panels.map((panel) => {
    const at = h;
    h += height + Math.ceil(panel.lines.length / 2) * legendLine + 20;
    return `<g transform="translate(0 ${at})">${draw(panel, xTitle)}</g>`;
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${h}" width="${width}" height="${h}" ` +
    `font-family="sans-serif" font-size="12" fill="${grey}">\n<title>${panels.map(({ title }) => title).join('; ')}</title>\n${body.join('\n')}\n</svg>\n`
  );
}

function draw({ title, lines }: Panel, xTitle: string): string {
  const points = lines.flatMap((line) => line.points.filter(([, y]) => Number.isFinite(y)));
  const [xMin, xMax] = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))];
  const step = niceStep(Math.max(...points.map(([, y]) => y)) / 5);
  const yMax = step * Math.ceil(Math.max(...points.map(([, y]) => y)) / step) || 1;
  const xs = Math.log10(xMax / xMin) || 1;
  const [plotWidth, plotHeight] = [width - margin.left - margin.right, height - margin.top - margin.bottom];
  const x = (value: number) => round(margin.left + (Math.log10(value / xMin) / xs) * plotWidth);
  const y = (value: number) => round(margin.top + plotHeight - (value / yMax) * plotHeight);
  const parts = [label(margin.left, 16, title, 'start')];
  for (let value = 0; value <= yMax * 1.001; value += step) {
    const at = y(value);
    parts.push(
      `<path d="M${margin.left} ${at}h${plotWidth}" stroke="${grey}" stroke-opacity=".3"/>`,
      label(margin.left - 6, at + 4, short(value), 'end'),
    );
  }
  for (const value of new Set(points.map(([at]) => at)))
    parts.push(
      `<path d="M${x(value)} ${y(0)}v4" stroke="${grey}"/>`,
      label(x(value), y(0) + 18, short(value), 'middle'),
    );
  parts.push(label(margin.left + plotWidth / 2, height - 8, xTitle, 'middle'));
  for (const [n, line] of lines.entries()) {
    const colour = colours[n % colours.length] ?? grey;
    // With colours alone, some readers cannot tell the lines apart.
    const dash = dashes[n % dashes.length];
    const stroke = `stroke="${colour}" stroke-width="2"${dash === '' ? '' : ` stroke-dasharray="${dash}"`}`;
    const drawn = line.points.filter(([, value]) => Number.isFinite(value));
    parts.push(
      `<polyline fill="none" ${stroke} points="${drawn.map(([px, py]) => `${x(px)},${y(py)}`).join(' ')}"/>`,
      ...drawn.map(([px, py]) => `<circle cx="${x(px)}" cy="${y(py)}" r="3" fill="${colour}"/>`),
    );
    const half = Math.ceil(lines.length / 2);
    const left = margin.left + (n < half ? 0 : plotWidth / 2);
    const at = height + 8 + (n % half) * legendLine;
    parts.push(`<path d="M${left} ${at}h26" ${stroke}/>`, label(left + 32, at + 4, line.name, 'start'));
  }
  return parts.join('');
}

const round = (value: number): number => Math.round(value * 10) / 10;

const label = (x: number, y: number, text: string, anchor: string): string =>
  `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(text)}</text>`;

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** 1, 2 or 5 times a power of ten, at least `value`. */
function niceStep(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10) * power;
}

function short(value: number): string {
  if (value >= 1e6) return `${round(value / 1e6)} M`;
  if (value >= 1e3) return `${round(value / 1e3)} k`;
  return String(round(value));
}
