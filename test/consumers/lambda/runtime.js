/** Simulates the AWS Lambda runtime: loads a bundle and calls its handler for each message. */
const { handler } = require(process.argv[2])

const failed = (error) => ({ statusCode: 500, body: String(error) })
process.on('message', async (event) => process.send(await handler(event).catch(failed)))
