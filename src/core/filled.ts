// Puts values into texts, and names codes that have no text.

type Values = Readonly<Record<string, string | number>>;

const counted = /\{(\w+):((?:[^{|}]|\{\w+\})*)\|((?:[^{|}]|\{\w+\})*)\}/g;

/** `values` replace {name}. {name:job|jobs} is the first text where the value is 1, else the second; each may
 *  have {name} in it. A part in [ ] is left out where one of its values is missing. */
export const filled = (text: string, values: Values): string =>
  chosen(text, values).replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));

/** The same text split at its values: words, the name of a value, words, and so on. */
export const partsOf = (text: string, values: Values): readonly string[] =>
  chosen(text, values).split(/\{(\w+)\}/);

function chosen(text: string, values: Values): string {
  const hasAll = (part: string) =>
    [...part.matchAll(/\{(\w+)\}/g)].every(([, name = '']) => Object.hasOwn(values, name));
  return text
    .replace(/\[(.*?)\]/g, (_, part: string) => (hasAll(part) ? part : ''))
    .replace(counted, (_, name: string, one: string, more: string) =>
      String(values[name]) === '1' ? one : more,
    );
}

/** `new_event` of `flow_new_event` */
export const codeOf = (key: string): string => key.slice(key.indexOf('_') + 1);
