#include "runtime/processes/wire/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

// Disables Nagle's algorithm: messages are small and latency counts.
void SendAtOnce(int descriptor) {
  const int yes = 1;
  static_cast<void>(setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
}

sockaddr_in NameOf(const Socket& socket) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  static_cast<void>(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size));
  return name;
}

std::string TextOf(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &address, text.data(), text.size()) != nullptr ? text.data() : "";
}

// `address` as AddressOf gives it.
sockaddr_in NameOf(const std::string& address, int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  static_cast<void>(inet_pton(AF_INET, address.c_str(), &name.sin_addr));
  return name;
}

}  // namespace

Deadline DeadlineIn(std::int64_t ns) { return Clock::now() + std::chrono::nanoseconds(ns); }

int MsUntil(Deadline by) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(by - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<std::string> AddressOf(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Fail(ErrorCode::kIo, gai_strerror(error));
  }
  std::string address = TextOf(reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr);
  freeaddrinfo(found);
  return address;
}

bool IsLoopback(const std::string& address) { return address.starts_with("127."); }

// SO_REUSEADDR: a new run can use the port while connections of an ended one are still in
// TIME_WAIT. Not blocking: a connection may vanish between poll and accept.
Result<Socket> ListenAt(const std::string& address, int port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  const sockaddr_in name = NameOf(address, port);
  if (!listener.is_open() ||
      setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return Fail(ErrorCode::kIo, std::strerror(errno));
  }
  return listener;
}

int PortOf(const Socket& socket) { return ntohs(NameOf(socket).sin_port); }

std::string OwnAddress(const Socket& socket) { return TextOf(NameOf(socket).sin_addr); }

// A blocking connect could take minutes to a machine that does not answer.
Result<Socket> ConnectTo(const std::string& address, int port, Deadline by) {
  Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) return Fail(ErrorCode::kIo, std::strerror(errno));
  const sockaddr_in name = NameOf(address, port);
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    if (errno != EINPROGRESS) return Fail(ErrorCode::kIo, std::strerror(errno));
    while (!IsReady(made, POLLOUT, MsUntil(by))) {
      if (Clock::now() >= by) return Fail(ErrorCode::kTimeout, std::strerror(ETIMEDOUT));
    }
    int error = 0;
    socklen_t size = sizeof error;
    static_cast<void>(getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size));
    if (error != 0) return Fail(ErrorCode::kIo, std::strerror(error));
  }
  SendAtOnce(made.get());
  return made;
}

Socket Accept(const Socket& listener) {
  Socket peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer.is_open()) SendAtOnce(peer.get());
  return peer;
}

bool IsReady(const Socket& socket, short events, int ms) {
  pollfd waited{socket.get(), events, 0};
  return poll(&waited, 1, ms) > 0;
}

}  // namespace foretrain
