# Embeds data files into a library.
set(FT_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_file.cmake)

# ft_embed(foretrain_NAME file...)
# Generates "NAME/embedded_data.h" with
#   namespace foretrain::NAME_data { std::span<const EmbeddedFile> Files(); }
# Entries are sorted by path, relative to the repository ("sim/config/catalogue/models.csv"), and hold the file's text.
# base/embedded.h has EmbeddedFile and FindEmbedded.
function(ft_embed target)
  if(NOT ARGN)
    return()
  endif()
  string(REGEX REPLACE "^foretrain_" "" name ${target})
  set(folder ${CMAKE_BINARY_DIR}/generated/${name})
  set(files ${ARGN})
  list(SORT files)
  set(declarations "")
  set(entries "")
  foreach(file IN LISTS files)
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${file})
    string(MAKE_C_IDENTIFIER "${path}" id)
    set(out ${folder}/${id}.cc)
    add_custom_command(OUTPUT ${out} DEPENDS ${file} ${FT_EMBED_SCRIPT} VERBATIM
      COMMAND ${CMAKE_COMMAND} -D IN=${file} -D OUT=${out} -D ID=${id} -D NAMESPACE=${name}_data -P ${FT_EMBED_SCRIPT})
    target_sources(${target} PRIVATE ${out})
    string(APPEND declarations "extern const std::string_view ${id};\n")
    string(APPEND entries "      {\"${path}\", ${id}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/embedded_data.h @ONLY CONTENT [[
// Generated. The data files of @name@/.
#pragma once
#include <span>

#include "base/embedded.h"

namespace foretrain::@name@_data {
std::span<const EmbeddedFile> Files();
}  // namespace foretrain::@name@_data
]])
  file(CONFIGURE OUTPUT ${folder}/embedded_data.cc @ONLY CONTENT [[
// Generated.
#include "@name@/embedded_data.h"

namespace foretrain::@name@_data {
@declarations@
std::span<const EmbeddedFile> Files() {
  static const EmbeddedFile files[] = {
@entries@  };
  return files;
}
}  // namespace foretrain::@name@_data
]])
  target_sources(${target} PRIVATE ${folder}/embedded_data.cc)
endfunction()
