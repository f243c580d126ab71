<?php

// The driver for think-queue. No package of Debian has think-queue, so this file has its classes in outline, and does
// what its worker does with a job. Reads {url, topic} from its arguments, and prints what it saw.

declare(strict_types=1);

namespace think {
    class App
    {
    }
}

namespace think\queue {

    use think\App;

    trait InteractsWithTime
    {
        protected function secondsUntil($delay)
        {
            return $delay instanceof \DateTimeInterface ? max(0, $delay->getTimestamp() - time()) : (int) $delay;
        }
    }

    abstract class Connector
    {
        protected $app;
        protected $connection;
        protected $options = [];

        abstract public function size($queue = null);

        abstract public function push($job, $data = '', $queue = null);

        abstract public function pushRaw($payload, $queue = null, array $options = []);

        abstract public function later($delay, $job, $data = '', $queue = null);

        abstract public function pop($queue = null);

        protected function createPayload($job, $data = '')
        {
            return json_encode(['job' => $job, 'maxTries' => null, 'timeout' => null, 'data' => $data]);
        }

        public function setApp(App $app)
        {
            $this->app = $app;
            return $this;
        }

        public function setConnection($name)
        {
            $this->connection = $name;
            return $this;
        }
    }

    abstract class Job
    {
        protected $app;
        protected $queue;
        protected $connection;
        protected $deleted = false;
        protected $released = false;
        protected $failed = false;

        abstract public function getJobId();

        abstract public function attempts();

        abstract public function getRawBody();

        public function delete()
        {
            $this->deleted = true;
        }

        public function release($delay = 0)
        {
            $this->released = true;
        }

        public function hasFailed()
        {
            return $this->failed;
        }

        public function markAsFailed()
        {
            $this->failed = true;
        }
    }
}

namespace {

    use Dq\Think\DqConnector;
    use think\App;

    ini_set('display_errors', 'stderr');
    require __DIR__ . '/autoload.php';

    ['url' => $url, 'topic' => $topic] = json_decode($argv[1], true);
    $config = ['type' => DqConnector::class, 'url' => $url, 'queue' => $topic, 'retry_after' => 60, 'block_for' => 5];
    $queue = DqConnector::__make($config)->setApp(new App())->setConnection('dq');
    foreach (['succeed', 'release', 'fail'] as $name) {
        $ids[$name] = $queue->push("job@$name", ['n' => 1]);
    }
    $ids['later'] = $queue->later(new DateTimeImmutable('+1 hour'), 'job@later');
    $size = $queue->size();
    foreach ([1, 2, 3] as $turn) {
        $job = $queue->pop();
        [, $name] = explode('@', json_decode($job->getRawBody(), true)['job']);
        $jobs[$name] = [$job->getJobId(), $job->attempts()];
        switch ($name) {
            case 'succeed':
                $job->delete();
                break;
            case 'release':
                $job->release(3600);
                break;
            case 'fail':
                $job->markAsFailed();
                $job->delete();
        }
    }
    echo json_encode(compact('ids', 'size', 'jobs'), JSON_THROW_ON_ERROR);
}
