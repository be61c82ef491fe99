// Figures of networks and collectives that are the same on every machine: the tables of
// sim/cost/constants, each with its source. Leaves out what a cluster or a device profile says.
#pragma once

#include <array>
#include <cstdint>

namespace foretrain {

// What devices meet over.
enum class Wire : std::uint8_t { kLink, kPcie, kNetwork, kTorus };
inline constexpr int kWireCount = 4;

// How a collective's messages run; one of the rows of collectives.csv.
enum class Pattern : std::uint8_t { kRing, kTree, kInNetwork };
inline constexpr int kPatternCount = 3;

// Protocols of NCCL: LL sends a flag with each word, LL128 with each 128 bytes, Simple in chunks.
// Shorter hops against a smaller share of the rate, so that small messages take the first.
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };
inline constexpr int kProtocolCount = 3;

struct NetworkConstants {
  template <class T>
  using PerProtocol = std::array<T, kProtocolCount>;

  // Seconds; below 0: there is no such protocol.
  std::array<PerProtocol<double>, kPatternCount> base_s;
  std::array<std::array<PerProtocol<double>, kWireCount>, kPatternCount> hop_s;
  std::array<PerProtocol<double>, kPatternCount> share;  // of the rate
  std::array<double, kWireCount> efficiency;             // of the nominal rate, large messages
  double link_sums = 0;         // share of the rate that switches between devices sum at
  double messages_at_once = 0;  // of those that a device sends to different peers
  double straggler_from = 0;    // devices
  double straggler_sigma = 0;   // spread of the devices' speeds

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

// The built-in tables; a hole in them is a bug. Safe from any thread.
const NetworkConstants& Networks();

}  // namespace foretrain
