// TCP sockets over IPv4. Every wait has a deadline. runtime/processes/wire/connection.h adds
// authentication.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace foretrain {

using Deadline = std::chrono::steady_clock::time_point;

// The moment `ns` from now.
Deadline DeadlineIn(std::int64_t ns);
// Milliseconds left, rounded up, at most 1000 so that callers look around; 0 if it has passed.
int MsUntil(Deadline by);

// Owns a socket descriptor and closes it.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// The IPv4 address of a host name, "10.0.0.1". Errors: kIo, the system's own text.
Result<std::string> AddressOf(const std::string& host);
// True for 127.0.0.0/8, which other machines cannot reach.
bool IsLoopback(const std::string& address);

// Listens at `port` of this machine's `address` alone; 0 means any free port. Errors: kIo, the
// system's own text.
Result<Socket> ListenAt(const std::string& address, int port);
int PortOf(const Socket& socket);
// Tries once. Errors: kIo, the system's own text; kTimeout.
Result<Socket> ConnectTo(const std::string& address, int port, Deadline by);
// Takes a waiting connection; a closed socket if there is none.
Socket Accept(const Socket& listener);
// This end's address, "10.0.0.1", as the other machine reaches it.
std::string OwnAddress(const Socket& socket);

bool IsReady(const Socket& socket, short events, int ms);

}  // namespace foretrain
