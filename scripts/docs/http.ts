// Renders the reference page of the HTTP API from its OpenAPI document.
import { createServer } from 'node:http';
import { createApi } from '../../src/api/api.ts';
import type { ApiContext } from '../../src/api/api-context.ts';
import type { Admit, HttpFront } from '../../src/api/http/http-front.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type SessionRoutesOptions, sessionRoutes } from '../../src/console/session-routes.ts';
import { type Trial, trialRoutes } from '../../src/console/trial.ts';
import { byGroup, type TopicField, textOf } from '../../src/core/topic/field-kinds.ts';
import { topicColumns, topicFields } from '../../src/core/topic/fields.ts';
import { apiName } from '../../src/core/topic/settings.ts';
import { pullRoutes } from '../../src/intake/pull/pull-routes.ts';
import type { PulledLeases } from '../../src/intake/pull/pulled-leases.ts';
import type { Puller } from '../../src/intake/pull/puller.ts';
import { code, plain, table } from './markdown.ts';

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}
interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string;
        readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
      }
    >
  >;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
}
interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components?: { readonly schemas?: Readonly<Record<string, Schema>> };
}

interface Route {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

/** Every route with its requests and replies, from the schemas of /openapi.json. */
export async function httpPage(): Promise<string> {
  const document = await describeApi({ version: '', ofConsole: true });
  const byTag = new Map<string, Route[]>();
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0] ?? 'other';
      byTag.set(tag, [...(byTag.get(tag) ?? []), { path, method, operation }]);
    }
  const sections = [...byTag].map(
    ([tag, routes]) =>
      `## ${tag[0]?.toUpperCase()}${tag.slice(1)}\n\n${routes.map((route) => routeText(route, document)).join('\n')}`,
  );
  return `# HTTP API

JSON over HTTP/1.1. \`GET /openapi.json\` describes the API for programs: OpenAPI 3.1 with named schemas, the callback
included. \`npx openapi-typescript $DQ/openapi.json\` makes types from it. This page has every route;
[Pushing jobs](../pushing.md) shows how to use them.

- **Errors** are \`application/problem+json\`; [Errors](errors.md) lists the codes. Unknown parameters and members are
  errors.
- **Durations**: \`"500ms"\`, \`"30s"\`, \`"10m"\`, \`"1h30m"\`, \`"3d"\`, \`"PT30M"\`. A number without a unit is an error,
  except \`0\`.
- **Times**: RFC 3339 with an offset, or epoch milliseconds. Replies have RFC 3339 in UTC.
- **HEAD**: every GET route answers it, with the same headers and without a body.
- **Pages**: \`limit\` and \`cursor\` → \`{items, nextCursor}\`; \`nextCursor\` is null on the last page.
- **Access**: once a token exists, a call needs \`Authorization: Bearer dqk_…\` with the scope of the route;
  \`admin\` covers every scope. [Security](../security.md) has the details.
- A changed topic, token or shard list is in force in every process within 2 s.

${sections.join('\n')}
## Topic fields

${topicTables()}
## Objects

The objects of the replies and bodies, by name.

${replyObjects(document).join('\n')}
See also: [Pushing jobs](../pushing.md) · [Errors](errors.md) · [Command line](command-line.md)
`;
}

/** The document of /openapi.json, also with the routes that only the console's port serves. No route is
 *  called, so the parts that handlers use are placeholders. */
export async function describeApi(of: {
  readonly version: string;
  readonly ofConsole: boolean;
}): Promise<OpenApi> {
  const loaded = loadConfig({ flags: {}, env: {}, cwd: '/' });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const unused: unknown = new Proxy(() => {}, { get: () => unused, apply: () => unused });
  const role = {
    config: loaded.config,
    version: of.version,
    store: unused,
    registry: unused,
    link: unused,
    log: unused,
  };
  const parts = {
    role,
    questions: unused,
    tokens: unused,
    pushes: unused,
    egress: unused,
    suggestion: unused,
  };
  const context = parts as unknown as ApiContext;
  const front = { serverFor: createServer, servePlain: () => {} } as unknown as HttpFront;
  const api = await createApi(context, front, (routes) => {
    if (of.ofConsole) {
      sessionRoutes(routes, unused as SessionRoutesOptions);
      trialRoutes(routes, unused as Trial);
    }
    const pulls = { puller: unused as Puller, leases: unused as PulledLeases, admit: unused as Admit };
    pullRoutes(routes, context, pulls);
  });
  await api.ready();
  return api.swagger() as unknown as OpenApi;
}

function routeText({ path, method, operation }: Route, document: OpenApi): string {
  const scopes = operation.security?.flatMap(({ bearer = [] }) => bearer).map((scope) => code(scope)) ?? [];
  const needed = operation.security?.some(({ bearer }) => bearer !== undefined)
    ? 'Any token'
    : 'No token needed';
  const statuses = Object.entries(operation.responses);
  const bad = statuses.filter(([status]) => Number(status) >= 400).map(([status]) => status);
  const parameters = (operation.parameters ?? []).map(
    ({ name, in: place, required, description, schema }) => [
      code(place === 'path' ? `{${name}}` : name),
      `${place}${required === true && place !== 'path' ? ', required' : ''}`,
      valuesOf(schema, document),
      plain(description ?? schema.description ?? ''),
    ],
  );
  return [
    `### ${method.toUpperCase()} ${path}\n`,
    `${plain(operation.summary)}. ${scopes.length === 0 ? needed : `Scope ${scopes.join(' and ')}`}.\n`,
    ...(operation.description === undefined ? [] : [`${plain(operation.description)}\n`]),
    ...(parameters.length === 0 ? [] : [table(['parameter', 'in', 'values', ''], parameters)]),
    ...bodyText(operation, document),
    ...goodReplies(operation).flatMap((good) => replyText(good, document)),
    `Errors: ${bad.join(', ')}.\n`,
  ].join('\n');
}

function goodReplies({ responses }: Operation) {
  return Object.entries(responses)
    .filter(([status]) => Number(status) < 300)
    .map(([status, { description, content }]) => ({
      status,
      description,
      schema: content?.['application/json']?.schema ?? {},
    }));
}

function replyText(
  { status, description, schema }: ReturnType<typeof goodReplies>[number],
  document: OpenApi,
): string[] {
  if (schema.$ref !== undefined)
    return [`Reply ${status}: ${plain(description)}; ${valuesOf(schema, document)}.\n`];
  if (schema.properties === undefined) return [`Reply ${status}: ${plain(description)}.\n`];
  return [`Reply ${status}: ${plain(description)}.\n`, memberTable(schema, document)];
}

/** A heading and a table for each named schema of the replies, of the members of bodies and of the errors. */
function replyObjects(document: OpenApi): string[] {
  const names = new Set(['Problem']);
  const collect = (node: unknown) => {
    for (const [, name = ''] of JSON.stringify(node).matchAll(/"#\/components\/schemas\/(\w+)"/g))
      if (!names.has(name)) {
        names.add(name);
        collect(document.components?.schemas?.[name]);
      }
  };
  for (const methods of Object.values(document.paths))
    for (const operation of Object.values(methods)) {
      collect(goodReplies(operation));
      // The members of a body are listed at its route.
      for (const { schema } of Object.values(operation.requestBody?.content ?? {}))
        collect(resolve(schema, document).properties ?? {});
    }
  return [...names].sort().map((name) => {
    const schema = document.components?.schemas?.[name] ?? {};
    const about = schema.description === undefined ? '' : `${plain(schema.description)}.\n\n`;
    const members =
      schema.enum === undefined ? memberTable(schema, document) : `${valuesOf(schema, document)}\n`;
    return `### ${name}\n\n${about}${members}`;
  });
}

function memberTable({ properties = {}, required = [] }: Schema, document: OpenApi): string {
  const names = Object.keys(properties);
  // A topic has its fields as they are set; their table is not printed again.
  const known =
    'callbackUrl' in properties
      ? allTopicFields()
          .map(([key]) => apiName(key))
          .filter((name) => name !== 'secret')
      : [];
  const rows = names
    .filter((name) => !known.includes(name))
    .map((name) => [
      code(name) + (required.includes(name) ? '' : ' (optional)'),
      valuesOf(properties[name] ?? {}, document),
      plain(resolve(properties[name] ?? {}, document).description ?? ''),
    ]);
  const before = known.length === 0 ? '' : 'Every [topic field](#topic-fields) except `secret`, and:\n\n';
  return before + table(['member', 'values', ''], rows);
}

function bodyText({ requestBody }: Operation, document: OpenApi): string[] {
  return Object.entries(requestBody?.content ?? {}).flatMap(([type, media]) => {
    const schema = resolve(media.schema, document);
    const { properties, required } = schema.items === undefined ? schema : resolve(schema.items, document);
    if (type === '*/*') return ['Body: any bytes.\n'];
    if (properties === undefined) return [`Body, ${code(type)}: ${plain(schema.description ?? 'JSON')}.\n`];
    if ('callbackUrl' in properties) return [`Body, ${code(type)}: [topic fields](#topic-fields).\n`];
    const rows = Object.entries(properties).map(([name, property]) => [
      code(name),
      required?.includes(name) ? 'required' : '',
      valuesOf(property, document),
      plain(resolve(property, document).description ?? ''),
    ]);
    const what = schema.items === undefined ? '' : 'a list of items; an item has';
    return [
      `Body, ${code(type)}: ${what}\n`.replace(': \n', ':\n'),
      table(['member', '', 'values', ''], rows),
    ];
  });
}

function resolve(schema: Schema, document: OpenApi): Schema {
  const name = schema.$ref?.replace('#/components/schemas/', '');
  return (name === undefined ? undefined : document.components?.schemas?.[name]) ?? schema;
}

function valuesOf(given: Schema, document: OpenApi): string {
  const schema = resolve(given, document);
  const name = given.$ref?.replace('#/components/schemas/', '');
  if (name !== undefined) return `[${name}](#${name.toLowerCase()})`;
  if (schema.properties !== undefined) return code(`{${Object.keys(schema.properties).join(', ')}}`);
  if (schema.enum !== undefined) return schema.enum.map((value) => code(String(value))).join(', ');
  if (schema.const !== undefined) return code(String(schema.const));
  if (schema.anyOf !== undefined)
    return [...new Set(schema.anyOf.map((one) => valuesOf(one, document)))].join(' or ');
  if (schema.type === 'array')
    return `list of ${schema.items === undefined ? 'values' : valuesOf(schema.items, document) || 'values'}`;
  const kinds = (Array.isArray(schema.type) ? schema.type : [schema.type ?? '']).map((kind) =>
    kind === 'string' ? 'text' : kind,
  );
  const bounds =
    schema.minimum !== undefined && schema.maximum !== undefined && schema.minimum < schema.maximum
      ? `, ${schema.minimum} to ${schema.maximum}`
      : '';
  return `${kinds.join(' or ')}${bounds}`;
}

function allTopicFields(): readonly [string, TopicField][] {
  const { topic, ...others } = topicColumns;
  return [['topic', topic], ...Object.entries(topicFields), ...Object.entries(others)];
}

/** A section for each group of fields. */
function topicTables(): string {
  const rowOf = ([key, field]: readonly [string, TopicField]) => [
    code(apiName(key)),
    code(field.flag?.replace(/ .*/, '') ?? ''),
    field.defaultText ?? defaultOf(field),
    field.bounds,
    textOf(field),
  ];
  return byGroup(allTopicFields(), ([, { group }]) => group)
    .map(([title, fields]) => {
      const rows = table(['field', 'flag', 'default', 'values', ''], fields.map(rowOf));
      return title === null ? rows : `### ${title}\n\n${rows}`;
    })
    .join('\n');
}

function defaultOf(field: TopicField): string {
  if (field.default === undefined) return '';
  const value = field.print === undefined ? field.default : field.print(field.default);
  return code(typeof value === 'string' && value !== '' ? value : JSON.stringify(value));
}
