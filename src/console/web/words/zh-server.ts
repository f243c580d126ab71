// The server's sentences in Chinese that any screen may show, by code: problems of the API, and what the
// configuration leaves behind. English pages show the sentences of the server itself. The compiler checks
// that no code lacks a text.

import type { ErrorCode } from '../../../core/errors.ts';
import type { LeftBehind } from '../../../core/left-behind.ts';

export const zhServer = {
  problem_invalid: '请求无效：{detail}',
  problem_malformed_json: 'JSON 格式错误：{detail}',
  problem_unauthorized: '未登录或登录已失效',
  problem_forbidden: '没有此操作的权限',
  problem_no_route: '此版本的 dq 没有这个接口',
  problem_method_not_allowed: '此接口不支持这种请求方法',
  problem_topic_not_found: '没有这个主题',
  problem_job_not_found: '没有这个任务',
  problem_token_not_found: '没有这个令牌',
  problem_session_not_found: '没有这个会话',
  problem_operation_not_found: '没有这个批量操作',
  problem_shard_not_found: '没有这个分片',
  problem_job_exists: '已有相同 ID 的任务未结束',
  problem_token_exists: '已有同名的令牌',
  problem_topic_exists: '主题已存在',
  problem_topic_has_jobs: '主题还有任务',
  problem_lease_lost: '租约已丢失，停止处理该任务',
  problem_topic_not_push: '该主题的任务由客户端拉取，没有回调',
  problem_topic_not_pull: '该主题由 dq 投递，不能拉取',
  problem_topic_offline: '主题已下线，先恢复再操作',
  problem_job_in_flight: '任务正在投递中',
  problem_job_dead: '任务已是死信，请重新投递',
  problem_no_journal: 'dq 没有变更日志',
  problem_job_ended: '任务已结束',
  problem_no_shards: '任务不在 Redis 中，没有分片',
  problem_shard_refused: '此服务器不能作为分片：{detail}',
  problem_shard_in_use: '分片仍在使用，先排空',
  problem_work_running: '同样的工作正在进行',
  problem_trial_impossible: '无法在此试用：{detail}',
  problem_too_many_operations: '未结束的批量操作过多',
  problem_not_dead: '任务不是死信',
  problem_topic_changed: '主题已被他人修改',
  problem_job_changed: '任务已变化',
  problem_body_too_large: '任务体过大',
  problem_unsupported_media_type: '不支持此内容类型',
  problem_too_many_sign_ins: '登录失败次数过多，请稍后再试',
  problem_too_many_test_calls: '测试调用过多，请一分钟后再试',
  problem_schedule_not_found: '没有此定时计划',
  problem_schedule_exists: '无法创建：同名的定时计划已存在，或数量已达上限',
  problem_schedule_changed: '定时计划已被修改，请重新读取',
  problem_hook_failed: '告警渠道拒绝了消息：{detail}',
  problem_smtp_failed: '邮件服务器拒绝了邮件：{detail}',
  problem_shard_unreachable: '分片没有应答',
  problem_restoring: 'Redis 丢失了变更，dq 正在恢复任务。暂时不知道该任务是否存在，请稍后再试',
  problem_not_stored: '没有保存。存储不可用或已满，请稍后再试',
  problem_unknown: '结果未知，请先查询再重试',
  problem_survey_busy: '同时进行的搜索过多，请稍后再试',
  problem_unavailable: '暂时不可用，请稍后再试',

  left_jobs_db: 'jobs.db 中有 {jobs} 个任务，设置 redis 时不投递。dq move 把它们转移到 Redis',
  left_registry_db:
    'registry.db 中有 {topics} 个主题、{tokens} 个令牌、{schedules} 个定时计划，设置 mysql.url 时不生效。MySQL 中没有主题时，dq move 把它们转移过去；否则请移走 registry.db',
  left_redis: '注册表列出 {servers}，未设置 redis 时其中的任务不投递。请重新设置 redis 并运行 dq restart',
  left_mysql:
    '注册表原来在 MySQL {server}，未设置 mysql.url 时其中的主题和令牌不生效。请重新设置 mysql.url，或删除 registry-copy.json',
} satisfies Record<`problem_${ErrorCode}` | `left_${LeftBehind['code']}`, string>;
