// Holds replies against /openapi.json: what a client would generate from it must fit what dq answers.
import Schema from 'typebox/schema';

interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}
export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** null = as described, else what is not. Requests to no route are described by nothing but the problem itself. */
export function undescribed(
  api: OpenApi,
  method: string,
  path: string,
  reply: { readonly status: number; readonly type: string; readonly body: unknown },
): string | null {
  const operation = operationOf(api, method, path);
  if (operation === undefined)
    return [400, 401, 403, 404].includes(reply.status)
      ? null
      : `${reply.status} on a route that is not described`;
  const described = operation.responses[reply.status];
  if (described === undefined) return `status ${reply.status} is not described`;
  const content = described.content?.[reply.type];
  if (content === undefined) return `content type ${reply.type} is not described for ${reply.status}`;
  const [fits, errors] = Schema.Compile(content.schema as never).Errors(reply.body);
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
