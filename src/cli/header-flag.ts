// `--header "name: value"`, as curl writes it, repeatable. Names lower-case.

import { Exit } from './exit.ts';

export function parseHeaders(texts: readonly string[]): Record<string, string> {
  // Without a prototype, or the name __proto__ would vanish instead of being refused.
  const headers: Record<string, string> = Object.create(null);
  for (const text of texts) {
    const colon = text.indexOf(':');
    const name = text.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    if (name === '') throw new Exit('usage', `--header: "${text}" is not "name: value"`);
    headers[name] = text.slice(colon + 1).trim();
  }
  return headers;
}
