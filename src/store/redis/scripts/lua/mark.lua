#!lua flags=allow-oom
-- mark: makes an empty bucket ours, and says whose it is.
-- @keys P of the bucket
-- @args the marker it shall have, the number of the shard list; '1' to mark an unmarked bucket
-- @returns the marker that it has now; '' where it has none. NOPERM: a command that the scripts use is denied to this user
-- @writes a key that is gone at its end; marker and list number, where there was no marker; numbers of topics in use, where none was known
-- Why: every other script refuses a bucket without the caller's marker, so this one alone begins without frame. Also on a full
--   server: a daemon that starts there must be able to drain it. Nothing is undone of a script that meets a command it may not
--   use, so each is tried here, on a bucket that is not somebody else's; what removes first, so that nothing stays.
local call = redis.call
local P = KEYS[1]
local marker = call('HGET', P .. ':n', 'marker')
local h, z = P .. ':try-h', P .. ':try-z'
local tried = {
  { 'HDEL', h, 'f' }, { 'ZREM', z, 'm' }, { 'ZREMRANGEBYRANK', z, 0, 0 }, { 'HSET', h, 'f', 'v' }, { 'HDEL', h, 'f' },
  { 'ZADD', z, 0, 'm' }, { 'ZREM', z, 'm' }, { 'EXISTS', h }, { 'HEXISTS', h, 'f' }, { 'HGET', h, 'f' }, { 'HGETALL', h },
  { 'HKEYS', h }, { 'HLEN', h }, { 'HMGET', h, 'f' }, { 'HSCAN', h, 0 }, { 'HSTRLEN', h, 'f' }, { 'TIME' }, { 'ZCARD', z }, { 'ZCOUNT', z, 0, 0 },
  { 'ZRANGE', z, 0, 0 }, { 'ZRANGEBYSCORE', z, 0, 0 }, { 'ZSCAN', z, 0 }, { 'ZSCORE', z, 'm' },
}
for _, command in ipairs(marker and marker ~= ARGV[1] and {} or tried) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then
    return redis.error_reply('NOPERM the scripts of dq need ' .. command[1] .. ', which answers: ' .. answer.err)
  end
end
if not marker and ARGV[3] == '1' then
  call('HSET', P .. ':n', 'marker', ARGV[1], 'list', ARGV[2])
  marker = ARGV[1]
end
-- Numbers of topics that a version gave which knew no :u: nobody may count before they are there.
if marker == ARGV[1] and call('EXISTS', P .. ':u') == 0 then
  for _, no in ipairs(call('HKEYS', P .. ':T')) do call('ZADD', P .. ':u', 0, no) end
end
return marker or ''
