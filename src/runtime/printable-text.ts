// printable-text.ts makes text from outside fit for logs, mails and terminals: without terminal commands,
// line breaks or marks that turn the direction of text.

/** C0 controls, DEL and C1 controls, line and paragraph separators, direction marks, lone surrogates. */
const unprintable =
  /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Writes unprintable characters as \u and four hexadecimal digits: the result is one line. */
export function printable(text: string): string {
  return text.replace(unprintable, escapeCharacter);
}

/** The same for JSON text, whose strings have their C0 controls escaped already. */
export function printableJson(json: string): string {
  return json.replace(/[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, escapeCharacter);
}

/** The first `charactersMax` UTF-16 units of printable(text). */
export function printableExcerpt(text: string, charactersMax: number): string {
  return printable(text.slice(0, charactersMax)).slice(0, charactersMax);
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
