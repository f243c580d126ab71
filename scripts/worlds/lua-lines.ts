// Lines of Lua scripts that ran: a statement of a file notes its line in the table `hits`, which the script
// of the worlds declares (test/sim/redis/line-notes.ts).
// Invariant: a line gets a note only where a statement begins, so each script does what it did.

import { lineMark } from '../../test/sim/redis/line-notes.ts';

export interface CountedText {
  readonly text: string;
  /** that have a note */
  readonly lines: readonly number[];
}

/** Words that continue or end a statement. */
const continues = /^(and|or|not|then|do|else|elseif|end|until|in)\b|^[)}\]({.,+*/%=<>~-]/;
const isOpen = /(\b(and|or|not|in|return|local|function)|[,=(+*/%<>~{.-])$/;

/** `file`: below src */
export function withNotes(file: string, text: string): CountedText {
  const lines: number[] = [];
  let depth = 0;
  let isContinued = false;
  const noted = text.split('\n').map((line, i) => {
    const code = codeOf(line);
    if (code === '') return line;
    const begins = depth === 0 && !isContinued && !continues.test(code);
    depth += count(code, /[({]/g) - count(code, /[)}]/g);
    isContinued = isOpen.test(code) && code !== 'return';
    if (!begins) return line;
    lines.push(i + 1);
    return `${lineMark}${file}:${i + 1}'] = 1 ${line}`;
  });
  return { text: noted.join('\n'), lines };
}

/** Without texts and comments. */
function codeOf(line: string): string {
  if (line.startsWith('#!')) return '';
  return line
    .replace(/'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"/g, '0')
    .replace(/--.*$/, '')
    .trim();
}

const count = (code: string, pattern: RegExp): number => code.match(pattern)?.length ?? 0;
