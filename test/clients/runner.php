<?php

// Runs the commands of a test with the PHP client, as runner.ts does with the other one.

declare(strict_types=1);

use Dq\Dq;
use Dq\DqError;
use Dq\Job;
use Dq\Nack;

ini_set('display_errors', 'stderr');
require __DIR__ . '/autoload.php';

function say(array $json): void
{
    fwrite(STDOUT, json_encode($json, JSON_THROW_ON_ERROR) . "\n");
}

function work(Job $job): void
{
    $order = $job->contentType === 'application/json' ? $job->json() : [];
    say(['event' => 'job', 'id' => $job->id, 'attempt' => $job->attempt, 'body' => base64_encode($job->body)]);
    while (isset($order['waitFor']) && !file_exists($order['waitFor'])) {
        usleep(10_000);
        clearstatcache();
    }
    if (isset($order['signal'])) {
        posix_kill(getmypid(), SIGTERM);
    }
    $odd = $order['odd'] ?? null;
    $job->result = $odd === 'result' ? NAN : $order['result'] ?? null;
    if ($odd === 'reason') {
        throw new Exception("\xff odd");
    }
    if (isset($order['fail'])) {
        throw new Exception($order['fail']);
    }
    if (isset($order['nack'])) {
        throw new Nack('cannot', $order['nack']);
    }
}

function run(Dq $dq, array $command): mixed
{
    $options = $command['options'] ?? [];
    switch ($command['do']) {
        case 'push':
            $body = isset($command['base64']) ? base64_decode($command['base64']) : $command['body'];
            return $dq->push($command['topic'], $body, $options);
        case 'pushMany':
            $push = fn(int $n) => $dq->push($command['topic'], ['n' => $n], $options)['id'];
            return array_map($push, range(1, $command['count']));
        case 'cancel':
            return $dq->cancel($command['topic'], $command['id']);
        case 'verify':
            return Dq::verify($command['headers'], base64_decode($command['base64']), $command['secret']);
        case 'pull':
            $dq->pull($command['topic'], 'work', ['onError' => function (Throwable $error, ?Job $job): void {
                $message = mb_scrub($error->getMessage());
                say(['event' => 'error', 'message' => $message, 'id' => $job?->id]);
            }]);
            return null;
    }
}

while (($line = fgets(STDIN)) !== false) {
    $command = json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    $dq = new Dq($command['url'], $command['token'] ?? null, ($command['patience'] ?? 30_000) / 1000);
    try {
        say(['result' => run($dq, $command)]);
    } catch (DqError $error) {
        say(['code' => $error->problem, 'status' => $error->status]);
    }
}
