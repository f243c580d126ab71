// Puts values into texts, and names codes that have no text.

type Values = Readonly<Record<string, string | number>>;

/** `values` replace {name}. {name:job|jobs} is the first text where the value is 1, else the second. A part
 *  in [ ] is left out where one of its values is missing. */
export function filled(text: string, values: Values): string {
  const hasAll = (part: string) =>
    [...part.matchAll(/\{(\w+)\}/g)].every(([, name = '']) => Object.hasOwn(values, name));
  return text
    .replace(/\[(.*?)\]/g, (_, part: string) => (hasAll(part) ? part : ''))
    .replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
    .replace(/\{(\w+):([^|}]*)\|([^}]*)\}/g, (_, name: string, one: string, more: string) =>
      String(values[name]) === '1' ? one : more,
    );
}

/** `new_event` of `flow_new_event` */
export const codeOf = (key: string): string => key.slice(key.indexOf('_') + 1);
