// A process that starts a server, prints its name, and then stays.
import { startRedis } from '../../scripts/services/redis.ts';

const server = await startRedis();
await server.process.freeze();
const { pid, directory } = server.process;
process.stdout.write(JSON.stringify({ pid, directory }));
setInterval(() => {}, 60_000);
