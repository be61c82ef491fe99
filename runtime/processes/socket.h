// TCP between the processes of a run: IPv4 and unencrypted, like the launchers' own stores. For
// trusted networks only.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace foretrain {

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

// Listens at `port`; 0 means any free port. Errors: kIo, the system's own text.
Result<Socket> ListenAt(int port);
int PortOf(const Socket& socket);
// Tries once. Errors: kIo, the system's own text.
Result<Socket> ConnectTo(const std::string& address, int port);
// A closed socket if no one connects within the time.
Socket AcceptWithin(const Socket& listener, int ms);
// This end's address, "10.0.0.1", as the other machine reaches it.
std::string OwnAddress(const Socket& socket);

bool IsReady(const Socket& socket, short events, int ms);

// Moves all bytes; false if the other end has gone or made no progress for `ms`.
bool SendAll(const Socket& socket, std::string_view bytes, int ms);
bool ReceiveAll(const Socket& socket, char* to, std::size_t bytes, int ms);

// A number's bytes in little-endian order, and back.
std::string BytesOfNumber(std::uint64_t value, int bytes);
std::uint64_t NumberOfBytes(std::string_view bytes);

// A text preceded by its length in 4 bytes; ReceiveText accepts at most `max` bytes.
std::string Framed(std::string_view text);
bool ReceiveText(const Socket& socket, std::string& out, std::uint32_t max, int ms);

}  // namespace foretrain
