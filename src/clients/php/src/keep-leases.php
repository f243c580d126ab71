<?php

// Extends the leases that Dq::pull() writes to its input, one list per line, at half of their time. Its first line is
// the address and the token. Ends with its input.

declare(strict_types=1);

require __DIR__ . '/DqError.php';
require __DIR__ . '/Dq.php';

// The pull loop gets the signal, too, and ends this process when its job is done.
if (function_exists('pcntl_signal')) {
    pcntl_signal(SIGTERM, SIG_IGN);
    pcntl_signal(SIGINT, SIG_IGN);
}
$dq = new Dq\Dq(...json_decode((string) fgets(STDIN), true));
[$leases, $seconds, $next] = [[], 0, 0];
while (true) {
    $pause = $leases === [] ? null : max(0, (int) (($next - hrtime(true)) / 1000));
    [$read, $write, $except] = [[STDIN], null, null];
    if (stream_select($read, $write, $except, $pause === null ? null : 0, $pause)) {
        $line = fgets(STDIN);
        if ($line === false) {
            exit(0);
        }
        [$leases, $seconds] = json_decode($line, true);
    } else {
        try {
            $dq->extend($leases, $seconds);
        } catch (Dq\DqError) {
            // The ack reports a lost lease.
        }
    }
    $next = hrtime(true) + $seconds * 500_000_000;
}
