// Starts an ActiveMQ broker, which serves STOMP: the Java machine itself with its own configuration and
// directory. Debian's package has no AMQP connector (neither activemq-amqp nor proton-j), so the broker
// speaks STOMP only. No JMX, no console, no file outside its directory.

import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { tryPorts } from './free-port.ts';
import { ServerProcess, StartedServer } from './server-process.ts';
import { makeDirectory } from './temporary-root.ts';

export interface ActivemqOptions {
  /** bytes of all messages in memory; default 16 MiB */
  readonly memoryLimit?: number;
  /** bytes of the store, counted in whole journal files of 1 MiB; default 32 MiB */
  readonly storeLimit?: number;
  /** What a producer gets at a limit. true: an ERROR frame; false (default): the broker stops reading. */
  readonly failsAtLimit?: boolean;
}

export class ActivemqServer extends StartedServer {
  readonly user = 'dq';
  readonly password: string;

  constructor(process: ServerProcess, password: string) {
    super(process);
    this.password = password;
  }

  get url(): string {
    return `stomp://${this.user}:${this.password}@127.0.0.1:${this.port}`;
  }
}

/** Debian links each of these to its version. */
const libraries = [
  ...[
    'broker',
    'client',
    'console',
    'jaas',
    'kahadb-store',
    'openwire-legacy',
    'protobuf',
    'spring',
    'stomp',
  ].map((name) => `activemq-${name}`),
  ...[
    'spring3-core',
    'spring3-beans',
    'spring3-context',
    'spring3-expression',
    'spring3-aop',
    'xbean-spring',
  ],
  ...['slf4j-api', 'slf4j-simple', 'commons-logging', 'hawtbuf'],
  ...['geronimo-jms_1.1_spec', 'geronimo-j2ee-management-1.1-spec', 'geronimo-annotation-1.3-spec'],
];

const mebibyte = 1_048_576;

export function startActivemq(options: ActivemqOptions = {}): Promise<ActivemqServer> {
  return tryPorts(1, async ([port = 0]) => {
    const directory = makeDirectory('activemq');
    const password = randomBytes(12).toString('hex');
    const file = join(directory, 'activemq.xml');
    writeFileSync(file, configuration(directory, port, password, options), { mode: 0o600 });
    const temporary = join(directory, 'tmp');
    mkdirSync(temporary);
    const process = await ServerProcess.start({
      command: 'java',
      args: [
        ...['-Xmx128m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xshare:auto'],
        // Otherwise each Java machine leaves a file in /tmp.
        '-XX:-UsePerfData',
        `-Djava.io.tmpdir=${temporary}`,
        `-Duser.home=${directory}`,
        '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
        ...['-cp', libraries.map((name) => `/usr/share/java/${name}.jar`).join(':')],
        ...['org.apache.activemq.console.command.ShellCommand', 'start', `xbean:file:${file}`],
      ],
      port,
      directory,
      isReady: () => welcomes(port, password),
    });
    return new ActivemqServer(process, password);
  });
}

/** The journal is synced before a receipt, as by default. With the strategy `never` the broker sends receipts
 *  before it has written: one kill -9 of nine lost a message. */
function configuration(
  directory: string,
  port: number,
  password: string,
  { memoryLimit = 16 * mebibyte, storeLimit = 32 * mebibyte, failsAtLimit = false }: ActivemqOptions,
): string {
  const schemas = 'http://www.springframework.org/schema/beans';
  return `<beans xmlns="${schemas}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="${schemas} ${schemas}/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="dq" dataDirectory="${directory}/data"
    useJmx="false" useShutdownHook="false" schedulerSupport="false" advisorySupport="false">
    <persistenceAdapter>
      <kahaDB directory="${directory}/kahadb" journalMaxFileLength="${mebibyte}"
        cleanupInterval="500" checkpointInterval="500"/>
    </persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin><users>
        <authenticationUser username="dq" password="${password}" groups="dq"/>
      </users></simpleAuthenticationPlugin>
    </plugins>
    <systemUsage><systemUsage sendFailIfNoSpace="${failsAtLimit}">
      <memoryUsage><memoryUsage limit="${memoryLimit}"/></memoryUsage>
      <storeUsage><storeUsage limit="${storeLimit}"/></storeUsage>
      <tempUsage><tempUsage limit="${32 * mebibyte}"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:${port}"/>
    </transportConnectors>
  </broker>
</beans>
`;
}

/** It answers a login. A connection alone proves nothing: another process may have taken the port during the
 *  start of the Java machine. */
function welcomes(port: number, password: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (isReady: boolean) => {
      socket.destroy();
      resolve(isReady);
    };
    socket.setTimeout(1_000, () => end(false));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
    socket.once('data', (data) => end(data.toString().startsWith('CONNECTED\n')));
    socket.write(`CONNECT\naccept-version:1.2\nhost:dq\nlogin:dq\npasscode:${password}\n\n\0`);
  });
}
