<?php

// A Laravel worker whose queues are in dq. Reads {url, topic, jobs} from its arguments, pushes, works on `jobs` jobs,
// and prints the events of the worker. Illuminate is that of Debian.

declare(strict_types=1);

use Dq\Laravel\DqServiceProvider;
use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;

ini_set('display_errors', 'stderr');
require __DIR__ . '/autoload.php';
require '/usr/share/php/Illuminate/Queue/autoload.php';

/** Its methods are jobs: `Handler@succeed`. */
final class Handler
{
    public function succeed($job, array $data): void
    {
        $job->delete();
    }

    public function throw($job, array $data): void
    {
        throw new RuntimeException('thrown');
    }

    public function release($job, array $data): void
    {
        $job->release(3600);
    }

    public function fail($job, array $data): void
    {
        $job->fail(new RuntimeException('broken order'));
    }
}

/** Of the events it keeps the names: the package of the real one is not installed. */
final class Events implements Dispatcher
{
    public array $names = [];

    public function dispatch($event, $payload = [], $halt = false)
    {
        $job = $event->job ?? null;
        $name = (new ReflectionClass($event))->getShortName();
        if (is_object($job) && method_exists($job, 'getName')) {
            $this->names[] = "$name {$job->getName()} {$job->attempts()}";
        }
    }

    public function until($event, $payload = [])
    {
        return null;
    }

    public function listen($events, $listener = null)
    {
    }

    public function hasListeners($eventName)
    {
        return false;
    }

    public function subscribe($subscriber)
    {
    }

    public function push($event, $payload = [])
    {
    }

    public function flush($event)
    {
    }

    public function forget($event)
    {
    }

    public function forgetPushed()
    {
    }
}

['url' => $url, 'topic' => $topic, 'jobs' => $jobs] = json_decode($argv[1], true);
$container = new Container();
Container::setInstance($container);
$events = new Events();
$container->instance('events', $events);
$container->instance(Dispatcher::class, $events);
$capsule = new Manager($container);
$manager = $capsule->getQueueManager();
$container->instance('queue', $manager);
$config = ['driver' => 'dq', 'url' => $url, 'queue' => $topic, 'retry_after' => 60, 'block_for' => 5];
$capsule->addConnection($config, 'dq');
$container['config']['queue.default'] = 'dq';
(new DqServiceProvider($container))->boot();

$queue = $manager->connection('dq');
$ids = ['succeed' => $queue->push('Handler@succeed', ['n' => 1])];
foreach (['throw', 'release', 'fail'] as $method) {
    $ids[$method] = $queue->push("Handler@$method", []);
}
$ids['later'] = $queue->later(new DateInterval('PT1H'), 'Handler@succeed', []);
$ids['raw'] = $queue->pushRaw('{"job":"Handler@succeed","data":[]}', null, ['id' => 'raw']);
$queue->bulk(['Handler@succeed', 'Handler@succeed'], ['n' => 2]);
$sizes = [$queue->size(), $queue->pendingSize(), $queue->delayedSize(), $queue->reservedSize()];

$exceptions = new class implements ExceptionHandler {
    public array $messages = [];

    public function report(Throwable $e)
    {
        $this->messages[] = $e->getMessage();
    }

    public function shouldReport(Throwable $e)
    {
        return true;
    }

    public function render($request, Throwable $e)
    {
    }

    public function renderForConsole($output, Throwable $e)
    {
    }
};
$options = new WorkerOptions();
[$options->sleep, $options->backoff, $options->maxTries, $options->maxJobs] = [0, 1800, 3, $jobs];
$status = (new Worker($manager, $events, $exceptions, fn() => false))->daemon('dq', $topic, $options);
$seen = ['events' => $events->names, 'reported' => $exceptions->messages];
echo json_encode(compact('ids', 'sizes', 'status') + $seen, JSON_THROW_ON_ERROR);
