/** A token store in DynamoDB, with a lease by a conditional write. */
import { randomUUID } from 'node:crypto'
import {
  ConditionalCheckFailedException,
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb'
import type { TokenStore } from 'merchant-auth'

/** The table has the partition key `id`, a string. Name `deleteAt` as its time to live attribute. */
export function dynamoDBTokenStore(client: DynamoDBClient, table: string): TokenStore {
  const itemOf = (id: string, content: string, ttlMs: number) => {
    const endsAt = Date.now() + ttlMs
    // DynamoDB deletes items up to days after `deleteAt` (s), so that `endsAt` (ms) decides.
    const times = { endsAt: { N: String(endsAt) }, deleteAt: { N: String(Math.ceil(endsAt / 1_000)) } }
    return { TableName: table, Item: { id: { S: id }, content: { S: content }, ...times } }
  }
  return {
    async get(key) {
      // Consistent: the next holder of the lease must see the token that the last one wrote.
      const read = { TableName: table, Key: { id: { S: key } }, ConsistentRead: true }
      const { Item } = await client.send(new GetItemCommand(read))
      if (Item?.['content']?.S === undefined) return undefined
      return { value: Item['content'].S, ttlMs: Number(Item['endsAt']?.N) - Date.now() }
    },
    async set(key, value, ttlMs) {
      await client.send(new PutItemCommand(itemOf(key, value, ttlMs)))
    },
    async lease(key, ttlMs) {
      const id = `${key}.lease`
      const holder = randomUUID()
      const acquire = new PutItemCommand({
        ...itemOf(id, holder, ttlMs),
        // Its own, too: the SDK repeats a write whose response was lost.
        ConditionExpression: 'attribute_not_exists(id) OR endsAt < :now OR content = :holder',
        ExpressionAttributeValues: { ':now': { N: String(Date.now()) }, ':holder': { S: holder } },
      })
      const release = new DeleteItemCommand({
        TableName: table,
        Key: { id: { S: id } },
        ConditionExpression: 'content = :holder', // it may have expired, and belong to another process
        ExpressionAttributeValues: { ':holder': { S: holder } },
      })
      if (!(await isMet(client.send(acquire)))) return undefined
      return async () => void (await isMet(client.send(release)))
    },
  }
}

/** Whether the condition of a write was met. */
async function isMet(write: Promise<unknown>): Promise<boolean> {
  try {
    await write
    return true
  } catch (error) {
    if (error instanceof ConditionalCheckFailedException) return false
    throw error
  }
}
