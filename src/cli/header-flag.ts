// Parses `--header "name: value"`, repeatable, as curl writes it. Names become lower-case.

import { Exit } from './exit.ts';

export function parseHeaders(texts: readonly string[]): Record<string, string> {
  // No prototype: the API must see and reject the name __proto__.
  const headers: Record<string, string> = Object.create(null);
  for (const text of texts) {
    const colon = text.indexOf(':');
    const name = text.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    if (name === '') throw new Exit('usage', `--header: "${text}" is not "name: value"`);
    headers[name] = text.slice(colon + 1).trim();
  }
  return headers;
}
