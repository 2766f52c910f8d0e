// What is no absolute https URL, or hardly one: protocol-relative, relative, and other schemes (contract 5.1).
import { DEST, judge, TOKEN } from './verdicts.ts'

judge('protocol-relative, and slashes too few or too many', [
  ['//api.example.com/merchant/x', DEST],
  ['//api.example.com:443/merchant', DEST],
  ['///api.example.com/merchant', DEST],
  ['/\\api.example.com/merchant', DEST],
  ['\\/api.example.com/merchant', DEST],
  ['//u:p@api.example.com/merchant', DEST],
  ['//evil.example/merchant', DEST],
  ['//127.0.0.1:8080/merchant', DEST],
  [' //api.example.com/merchant', DEST],
  ['://api.example.com/merchant', DEST],
  ['https:api.example.com/merchant', TOKEN],
  ['https:/api.example.com/merchant/x', TOKEN],
  ['https:///api.example.com/merchant', TOKEN],
  ['https:////api.example.com/merchant/x', TOKEN],
  ['https:///evil.example/merchant', DEST],
])

judge('empty and relative', [
  ['', DEST],
  [' ', DEST],
  ['/', DEST],
  ['/merchant', DEST],
  ['/merchant/x', DEST],
  ['merchant/x', DEST],
  ['./merchant', DEST],
  ['../merchant', DEST],
  ['?x', DEST],
  ['#x', DEST],
  ['https://', DEST],
  ['https:', DEST],
  ['api.example.com/merchant/x', DEST],
  ['api.example.com:443/merchant', DEST],
  ['localhost:80/x', DEST],
  ['undefined', DEST],
])

judge('file: and data:', [
  ['file:///merchant/x', DEST],
  ['file:/merchant', DEST],
  ['file:merchant', DEST],
  ['file://api.example.com/merchant/x', DEST],
  ['file://localhost/merchant/x', DEST],
  ['FILE:///C:/merchant', DEST],
  ['data:,merchant', DEST],
  ['data:text/plain,https://api.example.com/merchant', DEST],
  ['data:text/plain;base64,aGVsbG8=', DEST],
  ['data://api.example.com/merchant', DEST],
  ['DATA:text/html,//localhost/', DEST],
])

judge('other schemes', [
  ['blob:https://api.example.com/merchant/x', DEST],
  ['blob:http://localhost', DEST],
  ['blob:http://localhost/x', DEST],
  ['blob:http://127.0.0.1:8080/merchant/x', DEST],
  ["javascript:fetch('https://api.example.com/merchant')", DEST],
  ['javascript://api.example.com/merchant', DEST],
  ['ws://localhost/x', DEST],
  ['wss://api.example.com/merchant', DEST],
  ['ftp://api.example.com/merchant', DEST],
  ['httpss://api.example.com/merchant', DEST],
  ['https+unix://api.example.com/merchant', DEST],
  ['view-source:https://api.example.com/merchant', DEST],
  ['filesystem:https://api.example.com/merchant/x', DEST],
  ['unix:/run/merchant.sock:/merchant', DEST],
  ['about:blank', DEST],
])
