// Renders the reference page of all options.
import { renderConfigTable } from '../../src/config/show.ts';

export function configurationPage(): string {
  return `# Configuration

The first place that gives an option wins: the flag of \`dq start\`, the environment, the configuration file, the
default.

- The file is the one that \`-c FILE\` or \`DQ_CONFIG\` names, else \`./dq.yaml\`, else \`/etc/dq/dq.yaml\`. It is YAML, with
  nested or dotted names: \`server.port: 80\` or \`server: { port: 80 }\`. Unknown names are errors.
- In the environment, an underscore between the words of a name is optional: \`DQ_DATADIR\` and \`DQ_DATA_DIR\`. Two
  spellings with different values are an error, and so is an unknown \`DQ_\` variable. An empty variable is not set. dq
  ignores the variables that Kubernetes and Docker make for a service called \`dq\`, such as \`DQ_SERVICE_HOST\`.
- For a secret, \`DQ_…_FILE\` names a file that holds the value.
- Durations: \`30s\`, \`10m\`, \`1h30m\`, \`3d\`. Sizes: \`256KiB\`, \`16MiB\`.

\`dq config init\` writes a file with every option, \`dq config test\` lists all mistakes with file, line and column, and
\`dq config show\` prints each value and its origin. \`dq reload\` applies a changed file.

${renderConfigTable()}
See also: [Production checklist](../production.md) · [Command line](command-line.md)
`;
}
