// Starts a RabbitMQ broker, which serves AMQP 0-9-1 and AMQP 1.0 on one port: the Erlang machine itself in
// the foreground with its own directory. Invariant: starts no epmd and no shell script, so that signals
// reach the broker. Without rabbitmq.conf and with a short code path its start takes 2.2 s of processor
// time instead of 3.8 s.

import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { tryPorts } from './free-port.ts';
import { runTool, ServerProcess, StartedServer } from './server-process.ts';
import { makeDirectory } from './temporary-root.ts';

export interface RabbitmqOptions {
  /** Serves TLS too, on `tlsPort`, with this certificate and key (PEM). */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Erlang terms of the application `rabbit`: `{channel_max, 10}`, `{heartbeat, 1}` */
  readonly config?: readonly string[];
}

export class RabbitmqServer extends StartedServer {
  /** null without `tls` */
  readonly tlsPort: number | null;
  readonly #control: Control;

  constructor(process: ServerProcess, tlsPort: number | null, control: Control) {
    super(process);
    this.tlsPort = tlsPort;
    this.#control = control;
  }

  /** for both protocols; guest may do everything in the virtual host `/` */
  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.port}`;
  }

  /** Evaluates Erlang expressions in the broker, in milliseconds, and returns the printed value of the last.
   *  Rejects on an exception. `rabbit_amqqueue:count()` */
  ask(expressions: string): Promise<string> {
    return evaluate(this.#control, expressions);
  }

  /** On: RabbitMQ stops reading from connections that publish. In force when this resolves. */
  async setMemoryAlarm(isOn: boolean): Promise<void> {
    await this.ask(`vm_memory_monitor:set_vm_memory_high_watermark(${isOn ? '{absolute, 1}' : '0.4'})`);
  }

  /** A user without rights until `permissions` (configure, write, read: regular expressions) are given. */
  async addUser(
    name: string,
    password: string,
    permissions?: readonly [string, string, string],
  ): Promise<void> {
    const user = binary(name);
    await this.ask(`ok = rabbit_auth_backend_internal:add_user(${user}, ${binary(password)}, <<"test">>)`);
    if (permissions === undefined) return;
    const patterns = permissions.map(binary).join(', ');
    await this.ask(
      `ok = rabbit_auth_backend_internal:set_permissions(${user}, <<"/">>, ${patterns}, <<"test">>)`,
    );
  }
}

/** how erl_call reaches the broker: its distribution port, and the cookie in its home directory */
interface Control {
  readonly port: number;
  readonly directory: string;
}

const packageRoot = '/usr/lib/rabbitmq/lib';
/** Applications that the broker starts or calls, of about 70 in the plugin directory. */
const applications = [
  ...['rabbit', 'rabbit_common', 'rabbitmq_prelaunch', 'ra', 'aten', 'gen_batch_server', 'osiris', 'ranch'],
  ...['recon', 'seshat', 'stdout_formatter', 'sysmon_handler', 'syslog', 'jsx', 'credentials_obfuscation'],
  ...['cuttlefish', 'enough', 'systemd', 'observer_cli', 'getopt'],
];
const plugins = ['rabbitmq_amqp1_0', 'amqp10_common', 'amqp_client'];
const node = 'rabbit@localhost';

/** Ends the process that would start epmd, a daemon of its own, a minute after the start of the broker. */
const isServing = `case rabbit:is_running() of
  true -> supervisor:terminate_child(rabbit_sup, rabbit_epmd_monitor_sup) =:= ok;
  false -> false
end`;

/** a small machine: one scheduler of each kind, and none that waits actively */
const small = [
  ...['+S', '1:1', '+SDcpu', '1:1', '+SDio', '1', '+A', '1'],
  ...['+sbwt', 'none', '+sbwtdcpu', 'none', '+sbwtdio', 'none'],
];

export function startRabbitmq(options: RabbitmqOptions = {}): Promise<RabbitmqServer> {
  const { tls, config = [] } = options;
  return tryPorts(tls === undefined ? 2 : 3, async ([port = 0, controlPort = 0, tlsPort = null]) => {
    const directory = makeDirectory('rabbitmq');
    const at = (name: string) => join(directory, name);
    const write = (name: string, text: string) => writeFileSync(at(name), text, { mode: 0o600 });
    write('.erlang.cookie', randomBytes(20).toString('hex'));
    chmodSync(at('.erlang.cookie'), 0o400);
    write('enabled_plugins', `[${plugins[0]}].`);
    mkdirSync(at('plugins'));
    for (const name of plugins)
      symlinkSync(applicationPath(name), at(`plugins/${basename(applicationPath(name))}`));
    const terms = [
      '{num_tcp_acceptors, 1}',
      '{disk_free_limit, 0}',
      '{log, [{console, [{enabled, true}, {level, warning}]}, {file, [{file, false}]}]}',
      ...config,
    ];
    if (tls !== undefined) {
      write('cert.pem', tls.cert);
      write('key.pem', tls.key);
      terms.push(`{ssl_listeners, [{"127.0.0.1", ${tlsPort}}]}`, '{num_ssl_acceptors, 1}');
      terms.push(`{ssl_options, [{certfile, "${at('cert.pem')}"}, {keyfile, "${at('key.pem')}"}]}`);
    }
    write('dq.config', `[{rabbit, [${terms.join(',\n')}]}].\n`);
    const control = { port: controlPort, directory };
    const process = await ServerProcess.start({
      command: 'erl',
      args: [
        ...['-noinput', '-boot', 'start_sasl', '-s', 'rabbit', 'boot', '-config', at('dq')],
        ...['-pa', ...applications.map((name) => join(applicationPath(name), 'ebin'))],
        ...small,
        // The distribution is only for erl_call. It needs no epmd, because it has a fixed port.
        ...['-sname', node, '-start_epmd', 'false', '-erl_epmd_port', String(controlPort)],
        ...['-kernel', 'inet_dist_use_interface', '{127,0,0,1}'],
        ...['-syslog', 'logger', '[]', '-syslog', 'syslog_error_logger', 'false'],
      ],
      env: environment(directory, port),
      port,
      directory,
      isReady: async () => (await evaluate(control, isServing)) === 'true',
    });
    return new RabbitmqServer(process, tlsPort, control);
  });
}

/** Every path of a broker's own; those of files that do not exist keep it from reading /etc/rabbitmq. */
function environment(directory: string, port: number): Record<string, string> {
  const at = (name: string) => join(directory, name);
  return {
    HOME: directory,
    // An epmd that runs on this machine gets no registration: nothing listens on port 1.
    ERL_EPMD_PORT: '1',
    RABBITMQ_NODENAME: node,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_HOME: dirname(dirname(applicationPath('rabbit'))),
    RABBITMQ_MNESIA_BASE: at('mnesia'),
    RABBITMQ_LOG_BASE: at('log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_PID_FILE: at('pid'),
    RABBITMQ_PLUGINS_DIR: at('plugins'),
    RABBITMQ_ENABLED_PLUGINS_FILE: at('enabled_plugins'),
    RABBITMQ_GENERATED_CONFIG_DIR: at('generated'),
    RABBITMQ_CONF_ENV_FILE: at('none.conf'),
    RABBITMQ_CONFIG_FILE: at('none'),
    RABBITMQ_CONFIG_FILES: at('none.d'),
    RABBITMQ_ADVANCED_CONFIG_FILE: at('none.config'),
  };
}

/** erl_call reads up to a dot and a newline and prints `{ok, "…"}`. Base64: its quoting of strings loses
 *  characters. */
async function evaluate({ port, directory }: Control, expressions: string): Promise<string> {
  const text = `unicode:characters_to_binary(io_lib:format("~0tp", [begin ${expressions} end]))`;
  const args = ['-timeout', '10', '-address', `127.0.0.1:${port}`, '-e'];
  const output = await runTool('erl_call', args, {
    env: { HOME: directory },
    input: `base64:encode_to_string(${text}).\n`,
    timeoutMs: 20_000,
  });
  const value = /^\{ok, "([\w+/=]*)"\}\s*$/.exec(output)?.[1];
  if (value === undefined) throw new Error(`${expressions}: ${output}`);
  return Buffer.from(value, 'base64').toString();
}

/** `/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/plugins/ra-2.2.0` */
function applicationPath(name: string): string {
  const version = readdirSync(packageRoot).find((entry) => entry.startsWith('rabbitmq_server-'));
  const directory = join(packageRoot, version ?? 'rabbitmq_server', 'plugins');
  const found = readdirSync(directory).find((entry) => entry.replace(/-[\d.]+$/, '') === name);
  if (found === undefined) throw new Error(`${directory}: no application ${name}`);
  return join(directory, found);
}

/** an Erlang binary of these UTF-8 bytes */
function binary(text: string): string {
  return `<<${[...Buffer.from(text)].join(',')}>>`;
}
