// An EventSource: prints what it receives, a line for each. URL, and the number of events after which it ends.
import { EventSource } from 'eventsource';

const [url, count] = process.argv.slice(2);
const source = new EventSource(url);
let seen = 0;
source.onopen = () => console.log('open');
source.onmessage = (event) => {
  console.log(`${event.lastEventId} ${event.data}`);
  seen += 1;
  if (seen === Number(count)) source.close();
};
