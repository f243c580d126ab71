// Compares replies with /openapi.json: a client generated from it must understand every reply.
import Schema from 'typebox/schema';

interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}
export interface OpenApi {
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** The document with every $ref replaced by its schema. */
export function dereferenced(document: OpenApi): OpenApi {
  const resolve = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(resolve);
    if (typeof node !== 'object' || node === null) return node;
    const name = '$ref' in node ? /^#\/components\/schemas\/(\w+)$/.exec(String(node.$ref))?.[1] : undefined;
    if (name !== undefined) return resolve(document.components.schemas[name]);
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolve(value)]));
  };
  return resolve(document) as OpenApi;
}

const compiled = new WeakMap<object, ReturnType<typeof Schema.Compile>>();

function compile(schema: object): ReturnType<typeof Schema.Compile> {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const made = Schema.Compile(schema as never);
  compiled.set(schema, made);
  return made;
}

/** null = as described, otherwise the difference. `api`: dereferenced. No operation describes 404 no_route
 *  and 405. */
export function undescribed(
  api: OpenApi,
  method: string,
  path: string,
  reply: { readonly status: number; readonly type: string; readonly body: unknown },
): string | null {
  const operation = operationOf(api, method, path);
  if (operation === undefined)
    return [400, 401, 403, 404, 405].includes(reply.status)
      ? null
      : `${reply.status} on a route that is not described`;
  const described = operation.responses[reply.status];
  if (described === undefined) return `status ${reply.status} is not described`;
  const content = described.content?.[reply.type];
  if (content === undefined) return `content type ${reply.type} is not described for ${reply.status}`;
  const [fits, errors] = compile(content.schema).Errors(reply.body);
  return fits
    ? null
    : `the body is not as described: ${JSON.stringify(errors)} ${JSON.stringify(reply.body)}`;
}

function operationOf(api: OpenApi, method: string, path: string): Operation | undefined {
  const segments = path.split('?', 1)[0]?.split('/') ?? [];
  const templates = Object.keys(api.paths).filter((template) => {
    const parts = template.split('/');
    return (
      parts.length === segments.length &&
      parts.every(
        (part, index) => part === segments[index] || (part.startsWith('{') && segments[index] !== ''),
      )
    );
  });
  for (const template of templates) {
    const operation = api.paths[template]?.[method.toLowerCase()];
    if (operation !== undefined) return operation;
  }
  return undefined;
}
