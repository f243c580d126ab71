<?php

declare(strict_types=1);

namespace Dq\Think;

use Dq\Dq;
use Dq\Job as Pulled;
use think\App;
use think\queue\Job;

/** A job that a worker of think-queue got from dq. A failed one becomes a dead letter of dq. */
final class DqJob extends Job
{
    public function __construct(App $app, private Dq $dq, private Pulled $job, $connection, $queue)
    {
        $this->app = $app;
        $this->connection = $connection;
        $this->queue = $queue;
    }

    public function getJobId()
    {
        return $this->job->id;
    }

    public function getRawBody()
    {
        return $this->job->body;
    }

    public function attempts()
    {
        return $this->job->attempt;
    }

    /** think-queue deletes a job that is done, and one that has failed. */
    public function delete()
    {
        parent::delete();
        $this->hasFailed()
            ? $this->dq->nack($this->job, ['dead' => true, 'reason' => 'failed'])
            : $this->dq->ack($this->job);
    }

    /** Counts an attempt, as think-queue does. */
    public function release($delay = 0)
    {
        parent::release($delay);
        $this->dq->nack($this->job, ['delay' => "{$delay}s", 'reason' => 'released']);
    }
}
