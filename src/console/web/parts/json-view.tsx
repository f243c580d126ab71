// Shows a text as coloured JSON without parsing numbers: 9007199254740993 stays 9007199254740993. A text that
// is not JSON is shown as it is.

import type { ComponentChildren, VNode } from 'preact';
import { Code } from './parts.tsx';

const token =
  /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(true|false|null)|([{}[\],])|(\s+)|(.)/gsu;
/** Longer texts are shown without colours: each token is an element. */
const colouredMax = 65_536;

/** As core/json-text.ts, which runs in no browser. */
export const isJsonType = (contentType: string | null | undefined): boolean =>
  contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Line breaks of a reply are stored as \u000d and \u000a. In JSON such an escape may be the reply's own. */
export const readable = (excerpt: string): string =>
  isJson(excerpt) ? excerpt : excerpt.replaceAll('\\u000d', '').replaceAll('\\u000a', '\n');

/** `raw`: the characters as they are; otherwise one member a line. */
export function JsonView({ text, raw = false }: { text: string; raw?: boolean }) {
  const plain = raw || text.length > colouredMax || !isJson(text);
  return <Code>{plain ? text : coloured(text)}</Code>;
}

/** The same as a plain text. */
export const formatted = (text: string): string =>
  isJson(text)
    ? coloured(text)
        .map((part) =>
          typeof part === 'string' ? part : (part as VNode<{ children: string }>).props.children,
        )
        .join('')
    : text;

/** JSON without blanks between its tokens. */
export const compact = (text: string): string =>
  isJson(text)
    ? Array.from(text.matchAll(token), ([whole, string, colon, , , , space]) =>
        space === undefined ? (colon === undefined ? whole : `${string}:`) : '',
      ).join('')
    : text;

function coloured(text: string): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let depth = 0;
  let last = '';
  const newline = (): void => void out.push(`\n${'  '.repeat(depth)}`);
  for (const [whole, string, colon, number, word, mark, space] of text.matchAll(token)) {
    if (space !== undefined) continue;
    const closes = mark === '}' || mark === ']';
    if (closes) depth -= 1;
    const opened = last === '{' || last === '[';
    if (opened && !closes) newline();
    else if (!opened && closes) newline();
    if (string !== undefined && colon !== undefined) out.push(<span class="k">{string}</span>, ': ');
    else if (string !== undefined) out.push(<span class="s">{string}</span>);
    else if (number !== undefined || word !== undefined) out.push(<span class="n">{whole}</span>);
    else out.push(whole);
    if (mark === '{' || mark === '[') depth += 1;
    if (mark === ',') newline();
    last = whole;
  }
  return out;
}
