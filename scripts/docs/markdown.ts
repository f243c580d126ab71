// Markdown pieces of the reference pages.

/** A table; empty cells are allowed, and `|` in a cell is escaped. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`.replaceAll(
      /\| {2}(?=\|)/g,
      '| ',
    );
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line), ''].join('\n');
}

export function code(text: string): string {
  return text === '' ? '' : `\`${text}\``;
}

/** Text of a declaration in a Markdown cell: `<` would begin HTML. */
export function plain(text: string): string {
  return text.replaceAll('<', '&lt;').replaceAll('*', '\\*');
}
