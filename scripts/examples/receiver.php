<?php
// A receiver in PHP: WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:9000 receiver.php, or behind any web server.

foreach (['Dq', 'DqError'] as $class) {
    require_once __DIR__ . "/../../src/clients/php/src/$class.php"; // or vendor/autoload.php of Composer
}

$body = file_get_contents('php://input');
try {
    $job = Dq\Dq::verify($_SERVER, $body, (string) getenv('WEBHOOK_SECRET'));
} catch (Dq\DqError) {
    http_response_code(401);
    exit;
}
// A job can arrive twice: store its webhookId together with the result, and skip a known one.
error_log("$job[topic] $job[webhookId] $body");
header('content-type: application/json');
echo '{"code":200}';
