// Two ranks that are processes of the program, as a script.
#pragma once

#include <string>

#include "tests/runtime/ranks/free_port.h"

namespace foretrain {

// A script that starts rank 1 in the background and rank 0 in the foreground, and writes both exit
// codes to `codes`. `between` runs after rank 1 has been started.
inline std::string Pair(const std::string& first, const std::string& second,
                        const std::string& between = "") {
  const std::string meet =
      "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(FreePort()) + " WORLD_SIZE=2 ";
  return meet + "RANK=1 $FORETRAIN " + second + " > out1 2> err1 & other=$!; " + between + meet +
         "RANK=0 $FORETRAIN " + first + "; first=$?; wait $other; echo $first $? > codes";
}

// For `between`: waits in the background until rank 0 has told a step, a minute at most.
inline constexpr const char* kAfterAStep =
    "(n=0; until grep -q '\"step\"' stdout || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done; ";

}  // namespace foretrain
