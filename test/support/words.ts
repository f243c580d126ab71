/** The words of a text: a list of short values that fills its lines. A backslash stays as it is. */
export const words = (text: TemplateStringsArray): string[] => text.raw.join('').trim().split(/\s+/);

/** As `words`, for texts with blanks: a bar separates them. */
export const texts = (text: TemplateStringsArray): string[] =>
  text.raw
    .join('')
    .trim()
    .split(/\s+\|\s+/);
