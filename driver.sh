exec python dongles.py --node-name node-0 --cdi-root /cdi \
    --kubelet-plugins-directory-path /kubelet/plugins \
    --kubelet-registrar-directory-path /kubelet/plugins_registry
