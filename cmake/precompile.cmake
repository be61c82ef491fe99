# Headers that nearly every source includes are parsed once a target, which saves about a second a source.
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without; every source still includes the headers it uses.
set(FT_PRECOMPILED <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string>
  <string_view> <tuple> <unordered_map> <utility> <variant> <vector> ${CMAKE_SOURCE_DIR}/base/result.h)

# ft_precompile(TARGET header...): the list above and these third-party headers.
function(ft_precompile target)
  target_precompile_headers(${target} PRIVATE ${FT_PRECOMPILED} ${ARGN})
endfunction()
