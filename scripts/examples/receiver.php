<?php
// A receiver in PHP: WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:9000 receiver.php, or behind any web server.

function is_from_dq(string $body, string $secret): bool
{
    $id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
    $time = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!preg_match('/^\d{1,12}$/D', $time) || abs(time() - (int) $time) > 300) {
        return false;
    }
    $key = base64_decode(substr($secret, strlen('whsec_')), true);
    if ($key === false || $key === '') {
        return false;
    }
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$time.$body", $key, true));
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}

$body = file_get_contents('php://input');
if (!is_from_dq($body, (string) getenv('WEBHOOK_SECRET'))) {
    http_response_code(401);
    exit;
}
// A job can arrive twice: store its webhook-id together with the result, and skip a known one.
error_log($_SERVER['HTTP_DQ_TOPIC'] . ' ' . $_SERVER['HTTP_WEBHOOK_ID'] . ' ' . $body);
header('content-type: application/json');
echo '{"code":200}';
