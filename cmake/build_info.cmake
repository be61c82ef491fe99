# cmake -D SOURCE=dir -D OUT=file.cc -D COMPILER=text -D BUILD_TYPE=text -D LEFT_OUT=list -P build_info.cmake
# Runs with each build, and writes only if the commit has changed.
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD OUTPUT_VARIABLE commit ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
endif()
string(REPLACE "|" ", " LEFT_OUT "${LEFT_OUT}")
set(text "// Generated.
#include \"app/build_info.h\"

namespace foretrain {
const BuildInfo kBuildInfo{\"${VERSION}\", \"${commit}\", \"${COMPILER}\", \"${BUILD_TYPE}\", \"${LEFT_OUT}\"};
}  // namespace foretrain
")
if(EXISTS "${OUT}")
  file(READ "${OUT}" old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE "${OUT}" "${text}")
endif()
