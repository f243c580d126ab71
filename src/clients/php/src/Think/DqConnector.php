<?php

declare(strict_types=1);

namespace Dq\Think;

use Dq\Dq;
use think\queue\Connector;
use think\queue\InteractsWithTime;

/**
 * A queue of think-queue in dq: a queue name is a topic that clients pull. Its name is the `type` in config/queue.php.
 * think-queue counts the attempts and chooses the waits between them, so a push allows as many as dq can count.
 */
final class DqConnector extends Connector
{
    use InteractsWithTime;

    public function __construct(private Dq $dq, protected $options)
    {
    }

    /** think-queue calls it with the connection of config/queue.php. */
    public static function __make(array $config): self
    {
        return new self(new Dq($config['url'], $config['token'] ?? null, $config['patience'] ?? 30.0), $config);
    }

    public function size($queue = null)
    {
        $counts = array_column($this->dq->read('/v1/stats')['topics'], 'states', 'topic')[$this->topic($queue)];
        return $counts['ready'] + $counts['delayed'] + $counts['reserved'];
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->pushRaw($this->createPayload($job, $data), $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $options = ['delay' => "{$this->secondsUntil($delay)}s"];
        return $this->pushRaw($this->createPayload($job, $data), $queue, $options);
    }

    /** @param array $options of Dq::push() */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        $options += ['delay' => '0s', 'contentType' => 'application/json'];
        $options += ['maxAttempts' => $this->options['max_attempts'] ?? 100];
        return $this->dq->push($this->topic($queue), $payload, $options)['id'];
    }

    public function pop($queue = null)
    {
        $topic = $this->topic($queue);
        $options = ['lease' => ($this->options['retry_after'] ?? 60) . 's', 'wait' => $this->options['block_for'] ?? 0];
        foreach ($this->dq->take($topic, $options) as $job) {
            return new DqJob($this->app, $this->dq, $job, $this->connection, $topic);
        }
        return null;
    }

    private function topic(?string $queue): string
    {
        return $queue ?: $this->options['queue'] ?? 'default';
    }
}
