<?php
// A client of php-delayqueue's protocol, as its DqClient works: one recv(4), one recv(n), 1 s of patience.
// Arguments: port, then one JSON request for each frame. Prints each reply as one line of JSON, or `broken`.
$socket = stream_socket_client("tcp://127.0.0.1:$argv[1]", $errno, $error, 1);
stream_set_timeout($socket, 1);

function received($socket, int $bytes): ?string
{
    $read = [$socket];
    $none = null;
    if (!stream_select($read, $none, $none, 1)) {
        return null;
    }
    $text = stream_socket_recvfrom($socket, $bytes);
    return is_string($text) && strlen($text) === $bytes ? $text : null;
}

foreach (array_slice($argv, 2) as $json) {
    // As the client: decoded and encoded by PHP.
    $text = json_encode(json_decode($json, true));
    fwrite($socket, sprintf('%04d%s', strlen($text), $text));
    $digits = received($socket, 4);
    $reply = $digits === null ? null : received($socket, intval($digits));
    echo $reply === null ? 'broken' : json_encode(json_decode($reply, true)), "\n";
}
