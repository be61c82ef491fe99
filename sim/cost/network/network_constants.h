// Constants of networks and collectives that hold on every machine: the tables in
// sim/cost/profile/constants, each value with its source.
#pragma once

#include <array>
#include <cstdint>

namespace foretrain {

// Kind of connection between devices.
enum class Wire : std::uint8_t { kLink, kPcie, kNetwork, kTorus };
inline constexpr int kWireCount = 4;

// Message pattern of a collective, a row of collectives.csv.
enum class Pattern : std::uint8_t { kRing, kTree, kInNetwork };
inline constexpr int kPatternCount = 3;

// Protocols of NCCL. LL sends a flag with each word, LL128 with each 128 bytes, Simple with each
// chunk. Shorter hops cost bandwidth, so small messages use LL.
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };
inline constexpr int kProtocolCount = 3;

struct NetworkConstants {
  template <class T>
  using PerProtocol = std::array<T, kProtocolCount>;

  // Seconds; negative: no such protocol.
  std::array<PerProtocol<double>, kPatternCount> base_s;
  std::array<std::array<PerProtocol<double>, kWireCount>, kPatternCount> hop_s;
  // Share of the rate that a protocol reaches.
  std::array<PerProtocol<double>, kPatternCount> share;
  std::array<double, kWireCount> efficiency;  // share of the nominal rate, for large messages
  double link_sums = 0;         // share of the rate at which switches between devices reduce
  double messages_at_once = 0;  // messages that a device sends to different peers at the same time
  double straggler_from = 0;    // number of devices
  double straggler_sigma = 0;   // relative standard deviation of device speeds

  double Base(Pattern pattern, Protocol protocol) const {
    return base_s[static_cast<std::size_t>(pattern)][static_cast<std::size_t>(protocol)];
  }
  double Hop(Pattern pattern, Wire wire, Protocol protocol) const {
    return hop_s[static_cast<std::size_t>(pattern)][static_cast<std::size_t>(wire)]
                [static_cast<std::size_t>(protocol)];
  }
  double Share(Pattern pattern, Protocol protocol) const {
    return share[static_cast<std::size_t>(pattern)][static_cast<std::size_t>(protocol)];
  }
  double Efficiency(Wire wire) const { return efficiency[static_cast<std::size_t>(wire)]; }
};

// The built-in tables; a missing value stops the program. Safe from any thread.
const NetworkConstants& Networks();

}  // namespace foretrain
