// Lets tsx import .lua and .proto files as text, as the build does:
// tsx --import ./scripts/docs/lua-as-text.mjs FILE
import { register } from 'node:module';

const hooks = `
import { readFileSync } from 'node:fs';
export async function load(url, context, next) {
  if (!/\\.(lua|proto)$/.test(url)) return next(url, context);
  const source = 'export default ' + JSON.stringify(readFileSync(new URL(url), 'utf8'));
  return { format: 'module', shortCircuit: true, source };
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
