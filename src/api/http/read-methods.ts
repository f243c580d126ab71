// The methods of calls that change nothing. Every GET route answers HEAD, too, with the same headers and
// without a body.

export const isRead = (method: string | undefined): boolean => method === 'GET' || method === 'HEAD';
