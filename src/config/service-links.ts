// Recognises variables of a service called dq or dq-…, which look like options of dq: Kubernetes sets them
// for each service of the namespace, Docker for each legacy link. A start must not fail because of the name
// of a service. Compares names with
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables and
// https://docs.docker.com/engine/network/links/#environment-variables, and values with forms that no option
// of dq has.

type Environment = Readonly<Record<string, string | undefined>>;

const containers = /^\/[^/]+\/[^/]+$/;
/** patterns of the name and the value */
const links: readonly { readonly name: RegExp; readonly value: RegExp }[] = [
  { name: /^DQ_(?:\w+_)?SERVICE_HOST$/, value: /^[\w.:-]*$/ },
  { name: /^DQ_(?:\w+_)?SERVICE_PORT(?:_\w+)?$/, value: /^\d+$/ },
  { name: /^DQ_(?:\w+_)?PORT$/, value: /^(?:tcp|udp|sctp):\/\// },
  {
    name: /^DQ_(?:\w+_)?PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:START|END))?$/,
    value: /^(?:tcp|udp|sctp):\/\//,
  },
  {
    name: /^DQ_(?:\w+_)?PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO|ADDR|PORT(?:_START|_END)?)$/,
    value: /^[\w.:-]+$/,
  },
  // Docker: the names of both containers, /web/dq
  { name: /^DQ_(?:\w+_)?NAME$/, value: containers },
];

export function isServiceLink(variable: string, env: Environment): boolean {
  const value = env[variable] ?? '';
  if (links.some((link) => link.name.test(variable) && link.value.test(value))) return true;
  // Docker passes on the environment of a linked container and sets `<prefix>NAME` to the names of both
  // containers.
  const linked = /^(DQ_(?:\w+?_)?)ENV_\w+$/.exec(variable)?.[1];
  return linked !== undefined && containers.test(env[`${linked}NAME`] ?? '');
}
