#include "runtime/processes/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace foretrain {
namespace {

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

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

// SO_REUSEADDR: a new run can use the port while connections of an ended one are still in
// TIME_WAIT.
Result<Socket> ListenAt(int port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (!listener.is_open() ||
      setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return Fail(ErrorCode::kIo, std::strerror(errno));
  }
  return listener;
}

int PortOf(const Socket& socket) { return ntohs(NameOf(socket).sin_port); }

std::string OwnAddress(const Socket& socket) {
  const sockaddr_in name = NameOf(socket);
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &name.sin_addr, text.data(), text.size()) != nullptr ? text.data() : "";
}

// errno is saved at once, because freeaddrinfo may change it.
Result<Socket> ConnectTo(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    return Fail(ErrorCode::kIo, gai_strerror(error));
  }
  Socket made(socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0));
  const bool connected =
      made.is_open() && connect(made.get(), found->ai_addr, found->ai_addrlen) == 0;
  const int error = errno;
  freeaddrinfo(found);
  if (!connected) return Fail(ErrorCode::kIo, std::strerror(error));
  SendAtOnce(made.get());
  return made;
}

Socket AcceptWithin(const Socket& listener, int ms) {
  if (!IsReady(listener, POLLIN, ms)) return Socket();
  Socket peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (peer.is_open()) SendAtOnce(peer.get());
  return peer;
}

bool IsReady(const Socket& socket, short events, int ms) {
  pollfd waited{socket.get(), events, 0};
  return poll(&waited, 1, ms) > 0;
}

// MSG_DONTWAIT with poll: the call can give up after `ms` without progress, which a blocking send
// cannot.
bool SendAll(const Socket& socket, std::string_view bytes, int ms) {
  while (!bytes.empty()) {
    if (!IsReady(socket, POLLOUT, ms)) return false;
    const ssize_t sent =
        send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// `ms` bounds each wait and not the whole transfer: a large message may take longer as long as
// bytes arrive. recv returns 0 if the other end has closed.
bool ReceiveAll(const Socket& socket, char* to, std::size_t bytes, int ms) {
  while (bytes > 0) {
    if (!IsReady(socket, POLLIN, ms)) return false;
    const ssize_t came = recv(socket.get(), to, bytes, MSG_DONTWAIT);
    if (came < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (came <= 0) return false;
    to += came;
    bytes -= static_cast<std::size_t>(came);
  }
  return true;
}

// Numbers have the same bytes on every machine, whatever its own byte order.
std::string BytesOfNumber(std::uint64_t value, int bytes) {
  std::string text;
  for (int byte = 0; byte < bytes; ++byte) {
    text += static_cast<char>(value >> (8 * byte) & 0xff);
  }
  return text;
}

std::uint64_t NumberOfBytes(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[byte])} << (8 * byte);
  }
  return value;
}

std::string Framed(std::string_view text) { return BytesOfNumber(text.size(), 4).append(text); }

// The length comes from the other end, so it is checked before memory is allocated.
bool ReceiveText(const Socket& socket, std::string& out, std::uint32_t max, int ms) {
  std::array<char, 4> length{};
  if (!ReceiveAll(socket, length.data(), length.size(), ms)) return false;
  const std::uint64_t bytes = NumberOfBytes({length.data(), length.size()});
  if (bytes > max) return false;
  out.resize(bytes);
  return ReceiveAll(socket, out.data(), out.size(), ms);
}

}  // namespace foretrain
