package main

// Goal: a sample of proxy/recipes.md works only while it has the lock, releases it, and takes neither a denial nor an error for a lock. Method:
// the samples as they stand there, but for the resource, which is a variable here; in programs with the client libraries that TestLibraries has.
// A program reads the name of a resource, runs the sample on it, and prints "released" if the sample has worked, "failed" if it has
// ended with an error, and else "denied: " and the two cells that the table of the page must have. During the work it prints "held" and
// waits for a line.

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

// sampleClient is a program around the sample of a section. RECIPE stands for that.
type sampleClient struct {
	section string
	row     string // of the table
	holdingRecipe
}

// javaSample is a program in Java. CONNECT makes what the sample takes for given, and FORMS is how a denial looks.
func javaSample(section, row, class, imports, fields, connect, forms string) sampleClient {
	return sampleClient{section, row, holdingRecipe{"java", class + ".java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp BUILD/lib/* FILE", imports + `
import io.lettuce.core.*;
import io.lettuce.core.codec.*;
import io.lettuce.core.output.*;
import io.lettuce.core.protocol.*;
import java.util.*;

class ` + class + ` {
    static final Scanner lines = new Scanner(System.in);
    static boolean worked;
    ` + fields + `
    static void sendInvoices() {
        worked = true;
        System.out.println("held");
        lines.nextLine();
    }
    static void sample(String name) {
RECIPE
    }
    public static void main(String[] args) throws Exception {
        ` + connect + `
        System.out.println("ready");
        while (lines.hasNextLine()) {
            String name = lines.nextLine();
            worked = false;
            try {
                sample(name);
                System.out.println(worked ? "released" : "denied: " + ` + forms + `);
            } catch (RuntimeException e) { System.out.println("failed"); }
        }
        System.exit(0);
    }
}
`}}
}

func lettuceSample(protocol string) sampleClient {
	return javaSample("Lettuce", "Lettuce, "+protocol, "Sample", "import io.lettuce.core.api.sync.RedisCommands;",
		`static RedisCommands<String, String> redis;
    static final ProtocolKeyword KEYWORD = "LOCK"::getBytes;
    static CommandArgs<String, String> words(String... words) { return new CommandArgs<>(StringCodec.UTF8).addKeys(List.of(words)); }
    static String granted(String name) { // what the page says of a LOCK that is granted
        try { redis.dispatch(KEYWORD, new ValueOutput<>(StringCodec.UTF8), words(name, "1s")); } catch (UnsupportedOperationException e) { return ""; }
        return "a ValueOutput takes the array; ";
    }`,
		`RedisClient client = RedisClient.create("redis://HOST:PORT");
        client.setOptions(ClientOptions.builder().protocolVersion(ProtocolVersion.`+protocol+`).build());
        redis = client.connect().sync();`,
		`granted(name + "-other") + "`+"`"+`" + redis.dispatch(KEYWORD, new ValueOutput<>(StringCodec.UTF8), words(name, "30s", "JUSTTOKEN"))
                    + "`+"` | `ArrayOutput`: `"+`" + redis.dispatch(KEYWORD, new ArrayOutput<>(StringCodec.UTF8), words(name, "30s")) + "`+"`"+`"`)
}

var sampleClients = []sampleClient{
	lettuceSample("RESP2"),
	lettuceSample("RESP3"),
	javaSample("Spring Data Redis", "Spring Data Redis", "Sample", `import org.springframework.data.redis.RedisSystemException;
import org.springframework.data.redis.connection.*;
import org.springframework.data.redis.connection.lettuce.*;
import org.springframework.data.redis.core.*;`,
		`static LettuceConnectionFactory factory;
    static Object execute(String command, String... words) {
        return new StringRedisTemplate(factory).execute((RedisCallback<Object>) c -> c.execute(command, Arrays.stream(words).map(String::getBytes).toArray(byte[][]::new)));
    }
    static String granted(String command, String... words) {
        try { execute(command, words); } catch (RedisSystemException e) { return "RedisSystemException"; }
        return "its reply";
    }`,
		`factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration("HOST", PORT));
        factory.afterPropertiesSet();
        factory.start();`,
		`"`+"`"+`" + execute("LOCK", name, "30s", "JUSTTOKEN") + "`+"` | `"+`" + execute("LOCK", name, "30s") + "`+"`, but if it is granted: `"+`"
                    + granted("LOCK", name + "-other", "1s") + "`+"`"+`" + granted("UNLOCK", name, "none").replace("RedisSystemException", "")`),
	{"phpredis", "phpredis", holdingRecipe{"php", "sample.php", "php FILE", phpSample("", `
$redis = new Redis();
$redis->connect('HOST', PORT);`,
		`json_encode($redis->rawCommand('LOCK', $name, '30s', 'JUSTTOKEN')) . '`+"` | `"+`' . json_encode($redis->rawCommand('LOCK', $name, '30s'))`)}},
	{"Predis", "Predis", holdingRecipe{"php", "sample.php", "php FILE", phpSample(`require 'Predis/autoload.php';`, `
$redis = new Predis\Client('tcp://HOST:PORT');
if (!is_string($redis->executeRaw(['LOCK', 'NAME', 'soon']))) exit('executeRaw tells errors');`,
		`json_encode($redis->executeRaw(['LOCK', $name, '30s', 'JUSTTOKEN'])) . '`+"` | `"+`' . json_encode($redis->executeRaw(['LOCK', $name, '30s']))`)}},
	{"redis-rs", "redis-rs", holdingRecipe{"rust", "sample.sh", "bash FILE", `set -e
cat >"$0.rs" <<'RUST'
use std::io::{stdin, stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
fn line() -> Option<String> {
    stdout().flush().unwrap();
    let mut line = String::new();
    (stdin().read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_string())
}
static WORKED: AtomicBool = AtomicBool::new(false);
fn send_invoices() -> redis::RedisResult<()> {
    WORKED.store(true, Relaxed);
    println!("held");
    line();
    Ok(())
}
fn sample(mut con: &mut redis::Connection, name: &str) -> redis::RedisResult<()> {
RECIPE
}
fn main() {
    let mut con = redis::Client::open("redis://HOST:PORT/").unwrap().get_connection().unwrap();
    println!("ready");
    while let Some(name) = line() {
        WORKED.store(false, Relaxed);
        match sample(&mut con, &name) {
            Err(_) => println!("failed"),
            Ok(()) if WORKED.load(Relaxed) => println!("released"),
            Ok(()) => {
                let just: Option<String> = redis::cmd("LOCK").arg(&[name.as_str(), "30s", "JUSTTOKEN"]).query(&mut con).unwrap();
                let pair: Option<(String, u64)> = redis::cmd("LOCK").arg(&[name.as_str(), "30s"]).query(&mut con).unwrap();
                let list: Vec<String> = redis::cmd("LOCK").arg(&[name.as_str(), "30s"]).query(&mut con).unwrap();
                println!("denied: ` + "`{just:?}` | `{pair:?}`, or as a `Vec`: `{list:?}`" + `");
            }
        }
    }
}
RUST
rustc --crate-name sample --edition 2021 -L dependency=BUILD/debug/deps --extern redis="$(ls BUILD/debug/deps/libredis-*.rlib)" -o "$0.program" "$0.rs"
exec "$0.program"
`}},
	{"redis-rb", "redis-rb", holdingRecipe{"ruby", "sample.rb", "ruby FILE", `require "redis"
$stdout.sync = true
$redis = Redis.new(host: "HOST", port: PORT)
def redis = $redis
def send_invoices
  $worked = true
  puts "held"
  gets
end
def sample(name)
RECIPE
end
puts "ready"
while name = gets&.chomp
  begin
    $worked = false
    sample(name)
    puts $worked ? "released" : "denied: ` + "`#{redis.call('LOCK', name, '30s', 'JUSTTOKEN').inspect}` | `#{redis.call('LOCK', name, '30s').inspect}`" + `"
  rescue Redis::CommandError
    puts "failed"
  end
end
`}},
}

func phpSample(require, connect, forms string) string {
	return `<?php
` + require + `
function sendInvoices() { $GLOBALS['worked'] = true; echo "held\n"; fgets(STDIN); }
function sample($redis, $name) {
RECIPE
}` + connect + `
echo "ready\n";
while ($name = trim(fgets(STDIN))) {
  try {
    $worked = false;
    sample($redis, $name);
    echo $worked ? "released\n" : 'denied: ` + "`' . " + forms + ` . "` + "`" + `\n";
  } catch (Exception $e) { echo "failed\n"; }
}
`
}

// samplesOfPage are the blocks of code of proxy/recipes.md by their sections, and the rows of its table by the client: the other two cells.
func samplesOfPage(t *testing.T) (blocks, rows map[string]string) {
	blocks, rows = map[string]string{}, map[string]string{}
	page := readPage(t, "proxy/recipes.md")
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		block := regexp.MustCompile("(?s)\n```\\w+\n(.*?)\n```\n").FindAllStringSubmatch(section, -1)
		if len(block) != 1 {
			t.Fatalf("section %s has %d blocks of code, want one", title, len(block))
		}
		if blocks[title] = block[0][1]; strings.Count(blocks[title], "\n") > 7 {
			t.Errorf("the sample of %s has more than 8 lines", title)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| (.*) \|$`).FindAllStringSubmatch(page, -1) {
		rows[row[1]] = row[2]
	}
	return blocks, rows
}

func TestSamplesOfClients(t *testing.T) {
	needLibraries(t, "java", "php", "ruby", "rust")
	blocks, rows := samplesOfPage(t)
	p := launch(t)
	tested := map[string]bool{"StackExchange.Redis": true} // TestSampleOfStackExchangeRedis
	few := make(chan struct{}, 2)
	for i, client := range sampleClients {
		tested[client.section] = true
		t.Run(client.row, func(t *testing.T) {
			t.Parallel()
			few <- struct{}{}
			defer func() { <-few }()
			variable := "name"
			if client.language == "php" {
				variable = "$name"
			}
			block := blocks[client.section]
			sample := strings.NewReplacer(`"invoices"`, variable, `'invoices'`, variable).Replace(block)
			if sample == block {
				t.Fatalf("the sample does not lock invoices:\n%s", block)
			}
			name := fmt.Sprint("invoices-", i)
			player := client.start(t, p.addr, name, sample)
			player.wantAnswer("ready")

			held := strings.Fields(redisCLI(t, p.addr, "LOCK", name, "30s"))[0]
			player.want(name, "denied: "+rows[client.row])
			redisCLI(t, p.addr, "UNLOCK", name, held)

			player.want(name, "held")
			if got := redisCLI(t, p.addr, "LOCK", name, "1s"); got != "" {
				t.Errorf("the lock was granted to another while the work goes on: %s", got)
			}
			player.want("", "released")
			if got := redisCLI(t, p.addr, "LOCK", name, "1s"); got == "" {
				t.Error("the lock is not released")
			}

			player.want("redlockd:refused", "failed")
			player.want("free-"+name, "held") // it goes on after the error
			player.want("", "released")
		})
	}
	for title := range blocks {
		if !tested[title] {
			t.Errorf("nothing tests the sample of %s", title)
		}
	}
}

// StackExchange.Redis sends the arguments of Execute as they are, each as one bulk string. It speaks RESP2 unless told otherwise, and RESP3 from version 3
// on; of either null, (string?) makes null. The bytes are compared, because the helpers of these tests would hide which null it is.
func TestSampleOfStackExchangeRedis(t *testing.T) {
	blocks, rows := samplesOfPage(t)
	block := blocks["StackExchange.Redis"]
	var commands [][]string
	for _, call := range regexp.MustCompile(`db\.Execute\(([^)]*)\)`).FindAllStringSubmatch(block, -1) {
		commands = append(commands, strings.Split(strings.ReplaceAll(call[1], `"`, ""), ", "))
	}
	if got := fmt.Sprint(commands); got != "[[LOCK invoices 30s JUSTTOKEN] [UNLOCK invoices token]]" || !strings.Contains(block, "(string?)") {
		t.Fatalf("the sample sends %s; the replay is of another one:\n%s", got, block)
	}
	if got := rows["StackExchange.Redis"]; got != "`null` | `IsNull`" {
		t.Errorf("the table says %s", got)
	}
	p := launch(t)
	for protocol, nulls := range map[string][2]string{"2": {`\$-1\r\n`, `\*-1\r\n`}, "3": {`_\r\n`, `_\r\n`}} {
		w := p.dial()
		read := func() string {
			line, err := w.reader.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		w.send("HELLO " + protocol + "\r\nPING")
		for read() != "+PONG\r\n" {
		}
		// exchange sends what the sample sends, and compares the bytes of the reply.
		exchange := func(want string, words ...string) string {
			t.Helper()
			frame := fmt.Sprintf("*%d\r\n", len(words))
			for _, word := range words {
				frame += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
			}
			if _, err := io.WriteString(w.conn, frame); err != nil {
				t.Fatal(err)
			}
			got := read()
			if got[0] == '$' && got[1] != '-' {
				got += read()
			}
			groups := regexp.MustCompile("^" + want + "$").FindStringSubmatch(got)
			if groups == nil {
				t.Fatalf("RESP%s, %q: got %q, want %q", protocol, words, got, want)
			}
			return groups[len(groups)-1]
		}
		lock, unlock := commands[0], commands[1]
		unlock[2] = exchange(`\$36\r\n(.{36})\r\n`, lock...)
		exchange(nulls[0], lock...)
		exchange(nulls[1], lock[:3]...)
		exchange(`:1\r\n`, unlock...)
		exchange(`:0\r\n`, unlock...)
		exchange(`-ERR .*\r\n`, "LOCK", "invoices", "soon", "JUSTTOKEN")
	}
}
