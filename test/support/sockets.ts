// Reads the network sockets of processes from /proc.
import { readFileSync } from 'node:fs';
import { openFilesOf } from './daemon.ts';

interface TcpSocket {
  readonly inode: string;
  readonly localPort: number;
  readonly remotePort: number;
  readonly listens: boolean;
}

function tcpSockets(): readonly TcpSocket[] {
  const port = (endpoint: string | undefined) => Number.parseInt(endpoint?.split(':')[1] ?? '', 16);
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  return lines.map((line) => {
    const [, local, remote, state, , , , , , inode] = line.trim().split(/\s+/);
    const [localPort, remotePort] = [port(local), port(remote)];
    return { inode: `socket:[${inode}]`, localPort, remotePort, listens: state === '0A' };
  });
}

/** The process has a TCP connection to that port of this machine. */
export function openSocketsTo(pid: number, port: number): boolean {
  const files = new Set(openFilesOf(pid));
  return tcpSockets().some(({ inode, remotePort }) => remotePort === port && files.has(inode));
}

/** Accepted connections of this port that the process holds. */
export function acceptedAt(pid: number, port: number): number {
  const files = new Set(openFilesOf(pid));
  return tcpSockets().filter((one) => !one.listens && one.localPort === port && files.has(one.inode)).length;
}

/** TCP ports that these processes listen on. */
export function portsOf(pids: readonly number[]): number[] {
  const files = new Set(pids.flatMap(openFilesOf));
  return tcpSockets()
    .filter(({ inode, listens }) => listens && files.has(inode))
    .map(({ localPort }) => localPort);
}
