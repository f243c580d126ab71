#!lua flags=allow-oom
-- mark: returns the marker of a bucket, and writes one to an unmarked bucket.
-- @keys P of the bucket
-- @args the wanted marker; number of the shard list; '1' = write it; a number above all that the caller
--   knows, if the bucket has had jobs and a journal can put them back; else ''
-- @returns the marker now; '' without one. NOPERM: the user lacks a command that the scripts need
-- @writes a try key that is gone at its end; the marker and the list number, if there was no marker
-- Why: every other script rejects a bucket without the caller's marker, so only this one has no frame. It
--   runs on a full server too, which a new daemon must be able to drain. Redis does not roll back a script
--   that meets a denied command, so this script tries each command first, unless the bucket is foreign.
--   Removals come first, so that nothing stays behind.
local call = redis.call
local P = KEYS[1]
local marker = call('HGET', P .. ':n', 'marker')
local h, z = P .. ':try-h', P .. ':try-z'
local tried = {
  { 'HDEL', h, 'f' }, { 'ZREM', z, 'm' }, { 'ZREMRANGEBYRANK', z, 0, 0 }, { 'HSET', h, 'f', 'v' }, { 'HDEL', h, 'f' },
  { 'ZADD', z, 0, 'm' }, { 'ZREM', z, 'm' }, { 'EXISTS', h }, { 'HEXISTS', h, 'f' }, { 'HGET', h, 'f' }, { 'HGETALL', h },
  { 'HKEYS', h }, { 'HLEN', h }, { 'HMGET', h, 'f' }, { 'HSCAN', h, 0 }, { 'HSTRLEN', h, 'f' }, { 'TIME' }, { 'ZCARD', z }, { 'ZCOUNT', z, 0, 0 },
  { 'ZRANDMEMBER', z, 1 },
  { 'ZRANGE', z, 0, 0 }, { 'ZRANGEBYSCORE', z, 0, 0 }, { 'ZSCAN', z, 0 }, { 'ZSCORE', z, 'm' },
}
for _, command in ipairs(marker and marker ~= ARGV[1] and {} or tried) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then
    return redis.error_reply('NOPERM the scripts of dq need ' .. command[1] .. ', which answers: ' .. answer.err)
  end
end
if ARGV[3] == '1' and not marker then
  call('HSET', P .. ':n', 'list', ARGV[2])
  -- All jobs are lost: a note from 0 on. No number is given twice, even if the new clock is behind.
  if ARGV[4] ~= '' then call('HSET', P .. ':n', 'seq', ARGV[4], 'heal', '0 ' .. ARGV[4] .. ' jobs') end
  call('HSET', P .. ':n', 'marker', ARGV[1])
  marker = ARGV[1]
end
return marker or ''
