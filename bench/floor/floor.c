// The least that a LOCK through any proxy can take on this machine: the bytes that redlockd sends five masters for a caller who is alone,
// a SET and the two questions behind it, and a reply when three have answered. It compares, checks and remembers nothing, so it is no lock.
// One thread that waits in epoll: no wake-up that the hops do not need.
//
// usage: floor PORT MASTER-PORT...
//
// A read must bring whole commands, and LOCK and UNLOCK must come alone, as clients send them that wait for each reply.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MASTERS = 9, FLIGHT = 4096, CLIENT = 64 }; // events below CLIENT are of masters, CLIENT of the listener, others of clients

#define BEHIND "*4\r\n$5\r\nhmget\r\n$16\r\nredlockd:members\r\n$1\r\nv\r\n$4\r\nbeat\r\n*1\r\n$4\r\ntime\r\n"

static void die(const char *what) { perror(what); exit(1); }

static int opened(int port, int listens) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) die("socket");
  if (listens ? bind(fd, (void *)&at, sizeof at) || listen(fd, 4096) : connect(fd, (void *)&at, sizeof at)) die("open");
  return fd;
}

static void watch(int epoll, int fd, int id) {
  struct epoll_event e = {.events = EPOLLIN, .data.u32 = id};
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
}

static void say(int fd, const char *text, int n) { if (write(fd, text, n) != n) close(fd); }
#define SAY(fd, text) say(fd, text, sizeof text - 1)

// arrays counts the arrays that begin in what was read. last is the byte before it, and then the last of it.
static int arrays(const char *text, int n, char *last) {
  int found = 0;
  for (int i = 0; i < n; i++) {
    found += text[i] == '*' && *last == '\n';
    *last = text[i];
  }
  return found;
}

int main(int argc, char **argv) {
  int masters = argc - 2, epoll = epoll_create1(0);
  if (masters < 1 || masters > MASTERS || epoll < 0) { fprintf(stderr, "usage: floor PORT MASTER-PORT... (up to %d)\n", MASTERS); return 2; }
  int listener = opened(atoi(argv[1]), 1), fd[MASTERS];
  watch(epoll, listener, CLIENT);
  char last[MASTERS];
  long answered[MASTERS] = {0}, sent = 0; // arrays that a master has answered with, two for each command; commands
  struct { int client, votes, locks; } flight[FLIGHT];
  for (int m = 0; m < masters; m++) {
    watch(epoll, fd[m] = opened(atoi(argv[2 + m]), 0), m);
    last[m] = '\n';
  }
  for (;;) {
    struct epoll_event events[64];
    char in[16384], out[16384 + 256];
    for (int k = 0, n = epoll_wait(epoll, events, 64, -1); k < n; k++) {
      int from = events[k].data.u32;
      if (from == CLIENT) {
        int client = accept(listener, 0, 0);
        if (client < 0) die("accept");
        watch(epoll, client, CLIENT + client);
        continue;
      }
      int got = read(from < CLIENT ? fd[from] : from - CLIENT, in, sizeof in - 1);
      if (got <= 0) {
        if (from < CLIENT) die("a master has ended");
        close(from - CLIENT);
        continue;
      }
      if (from > CLIENT) {
        int at[2] = {0}, size[2] = {0}, used = 0, name, locks; // the first argument, and the second
        char before = '\n';
        in[got] = 0;
        sscanf(in, "*%*d\r\n$%*d\r\n%n", &used);
        locks = !strncasecmp(in + used, "lock\r\n", 6);
        if (!locks && strncasecmp(in + used, "unlock\r\n", 8)) {
          for (int left = arrays(in, got, &before); left > 0; left--) SAY(from - CLIENT, "-ERR unknown command\r\n");
          continue;
        }
        used += locks ? 6 : 8;
        for (int i = 0; i < 2; i++) {
          sscanf(in + used, "$%d\r\n%n", &size[i], &name);
          at[i] = used += name;
          used += size[i] + 2;
        }
        int n = locks ? sprintf(out, "*6\r\n$3\r\nset\r\n$%d\r\n%.*s\r\n$22\r\n0123456789012345678901\r\n$2\r\nnx\r\n$2\r\npx\r\n$%d\r\n%.*s\r\n" BEHIND,
                                size[0], size[0], in + at[0], size[1], size[1], in + at[1])
                      : sprintf(out, "*2\r\n$3\r\ndel\r\n$%d\r\n%.*s\r\n" BEHIND, size[0], size[0], in + at[0]);
        flight[sent % FLIGHT].client = from - CLIENT;
        flight[sent % FLIGHT].votes = 0;
        flight[sent++ % FLIGHT].locks = locks;
        for (int m = 0; m < masters; m++) say(fd[m], out, n);
        continue;
      }
      for (int left = arrays(in, got, &last[from]); left > 0; left--) {
        long of = answered[from]++ / 2 % FLIGHT;
        if (answered[from] % 2 || ++flight[of].votes != masters / 2 + 1) continue;
        if (flight[of].locks) SAY(flight[of].client, "*2\r\n$22\r\n0123456789012345678901\r\n:30000\r\n");
        else SAY(flight[of].client, ":1\r\n");
      }
    }
  }
}
