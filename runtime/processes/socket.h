// TCP between the processes of a run: IPv4, unencrypted, as launchers' own stores are: for networks
// that one trusts. Leaves out what is said.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace foretrain {

// A descriptor, closed with this.
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

// Listens at `port`, at any that is free where that is 0. Errors: kIo, the system's own words.
Result<Socket> ListenAt(int port);
int PortOf(const Socket& socket);
// One try. Errors: kIo, the system's own words.
Result<Socket> ConnectTo(const std::string& address, int port);
// Nothing where nobody has come within the time.
Socket AcceptWithin(const Socket& listener, int ms);
// This end's address, "10.0.0.1", as the other end's machine reaches it.
std::string OwnAddress(const Socket& socket);

bool IsReady(const Socket& socket, short events, int ms);

// All bytes, or false: the other end has gone, or has not moved for `ms`.
bool SendAll(const Socket& socket, std::string_view bytes, int ms);
bool ReceiveAll(const Socket& socket, char* to, std::size_t bytes, int ms);

// A number's bytes, the least first, and back.
std::string BytesOfNumber(std::uint64_t value, int bytes);
std::uint64_t NumberOfBytes(std::string_view bytes);

// A text with its length before it, in 4 bytes; at most `most` bytes are taken.
std::string Framed(std::string_view text);
bool ReceiveText(const Socket& socket, std::string& out, std::uint32_t most, int ms);

}  // namespace foretrain
