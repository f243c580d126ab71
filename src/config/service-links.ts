// Variables that others set for a service called dq, or dq-…: Kubernetes for each service of the namespace, Docker for each
// legacy link. They look like variables of dq, and a start must not fail because of a service's name. Recognised by the exact
// names of https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables and
// https://docs.docker.com/engine/network/links/#environment-variables, and by values that no option of dq has.

type Environment = Readonly<Record<string, string | undefined>>;

const containers = /^\/[^/]+\/[^/]+$/;
/** of the name, and what the value must look like */
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
  // Docker passes on the environment of a linked container, and sets the container's name in `<prefix>NAME`.
  const linked = /^(DQ_(?:\w+?_)?)ENV_\w+$/.exec(variable)?.[1];
  return linked !== undefined && containers.test(env[`${linked}NAME`] ?? '');
}
