# One library a source folder.

# ft_folder(NAME [LINK target...] [PRIVATE target...])
# Defines foretrain_NAME (alias foretrain::NAME) from all .cc files below the current folder, except main.cc and those under
# */cuda/, which belong to the plugin. LINK: our folders that it may include. PRIVATE: third-party targets of its sources.
# PRECOMPILE: headers that many of its sources include; without it nothing is precompiled.
# The folder's .csv and .json files are embedded. A folder without sources becomes an INTERFACE library.
function(ft_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK;PRIVATE;PRECOMPILE")
  set(target foretrain_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
  file(GLOB_RECURSE data CONFIGURE_DEPENDS *.csv *.json)
  # Only below the current folder: the checkout itself may lie in a folder called cuda.
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?(cuda/.*|main\\.cc)$")
  list(FILTER headers EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?cuda/")
  if(sources OR data)
    add_library(${target} STATIC ${sources} ${headers})
    target_link_libraries(${target} PUBLIC foretrain_options ${arg_LINK} PRIVATE ${arg_PRIVATE})
    if(arg_PRECOMPILE)
      ft_precompile(${target} ${arg_PRECOMPILE})
    endif()
    ft_embed(${target} ${data})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE foretrain_options ${arg_LINK})
  endif()
  add_library(foretrain::${name} ALIAS ${target})
endfunction()

# ft_define(NAME macro=value...): a definition for foretrain_NAME and all targets that link it.
function(ft_define name)
  get_target_property(type foretrain_${name} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_compile_definitions(foretrain_${name} INTERFACE ${ARGN})
  else()
    target_compile_definitions(foretrain_${name} PUBLIC ${ARGN})
  endif()
endfunction()

# For targets whose own speed does not matter: compiling them takes a third less time.
function(ft_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
endfunction()
